"""Start a server, wait for it in a loop of your own, ask it for a page, stop it.

    awaitbox run examples/wait_for_server.py

No verb waits: shell_background returns at once, and the loop below decides from what shell_logs
shows it. It ends as soon as the address is there, gives up as soon as the server says that it
failed, and is bounded. Each `# %%` begins a cell; all cells share one namespace.
"""

# %% Start
import http.client
import re

SERVER = 'cd "$TMPDIR" && echo "it works" > index.html && python3 -u -m http.server 0 -b 127.0.0.1'
started = await shell_background([SERVER], id="web")
print(f"{started['id']} is {started['status']}, pid {started['pid']}")

# %% Wait for its address
port = None
for _ in range(200):
    log = await shell_logs("web")
    text = "\n".join([*log["lines"], log["partial_line"]])
    address = re.search(r"http://127\.0\.0\.1:(\d+)/", text)
    if address:
        port = int(address[1])
        break
    if "Error" in text or log["status"] != "running":
        raise RuntimeError(f"the server did not start:\n{text}")
    await sleep(0.05)
if port is None:
    raise RuntimeError(f"no address after 10 s; it printed:\n{text}")
print("it listens")

# %% Ask it
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
connection.request("GET", "/")
answer = connection.getresponse()
print(answer.status, answer.read().decode().strip())
connection.close()

# %% Stop it
stopped = await shell_stop("web")
print(f"{stopped['id']} is {stopped['status']}, and its port is free")
