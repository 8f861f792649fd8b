"""Three builds side by side, watched by one loop over their ids.

    awaitbox run examples/parallel_builds.py

Each build is a background with a terminal and a log of its own. One loop prints what is new in any
of them: total_lines says how many lines there are, so nothing is missed and nothing comes twice.
"""

# %% Start all three
BUILDS = {
    "parser": "for step in 1 2 3; do echo step $step; sleep 0.1; done; echo built",
    "lexer": "for step in 1 2; do echo step $step; sleep 0.05; done; echo built",
    "docs": "echo 'error: intro.md is missing'; exit 3",
}
for id, script in BUILDS.items():
    await shell_background([script], id=id)

# %% One loop over all ids
seen = dict.fromkeys(BUILDS, 0)
exits = {}
for _ in range(400):
    for id in BUILDS:
        if id in exits:
            continue
        log = await shell_logs(id)
        new = log["total_lines"] - seen[id]
        for line in log["lines"][len(log["lines"]) - new :]:
            print(f"{id:6} | {line}")
        seen[id] = log["total_lines"]
        if log["status"] != "running":
            exits[id] = log["exit"]
    if len(exits) == len(BUILDS):
        break
    await sleep(0.05)
else:
    raise RuntimeError(f"still running after 20 s: {set(BUILDS) - set(exits)}")

# %% What came of them
for id in BUILDS:
    print(f"{id:6} {'ok' if exits[id] == 0 else f'failed with exit {exits[id]}'}")
