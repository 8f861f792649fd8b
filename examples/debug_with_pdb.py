"""Drive a debugger: start it on a terminal, type at it, read what it answers.

    awaitbox run examples/debug_with_pdb.py

pdb is an interactive program: it prints a prompt and waits for a line. partial_line of shell_logs
is the line that is not finished, so a prompt is seen there and not guessed from a pause.
"""

# %% A script with a bug
import os

SCRIPT = os.path.join(os.environ["TMPDIR"], "average.py")
with open(SCRIPT, "w") as file:
    file.write(
        "def average(numbers):\n"
        "    total = count = 0\n"
        "    for number in numbers:\n"
        "        total += number\n"
        "    return total / count\n"
        "\n"
        "print(average([3, 5, 10]))\n"
    )


# %% What to do with the debugger
async def until_prompt(seen):
    """The lines behind the first `seen` ones, as soon as pdb asks again."""
    for _ in range(200):
        log = await shell_logs("pdb")
        if log["status"] != "running":
            raise RuntimeError(f"pdb ended with exit {log['exit']}: {log['lines']}")
        if log["partial_line"] == "(Pdb) " and (log["total_lines"] > seen or seen == 0):
            return log["lines"][seen:]
        await sleep(0.05)
    raise RuntimeError(f"no prompt after 10 s: {log['lines']}, {log['partial_line']!r}")


async def ask(command):
    """Type one command and give its answer; the first new line is the echo of what was typed."""
    seen = (await shell_logs("pdb"))["total_lines"]
    await shell_type("pdb", command)
    return (await until_prompt(seen))[1:]


# %% Stop where it goes wrong, and look
await shell_background([f"python3 -m pdb {SCRIPT}"], id="pdb")
await until_prompt(0)
await ask("break 5")
await ask("continue")
total, count = await ask("p total"), await ask("p count")
print(f"before the division: total = {total[0]}, count = {count[0]}")

# %% Leave it
await shell_stop("pdb")
print("count is never increased" if count == ["0"] else f"unexpected: {count}")
