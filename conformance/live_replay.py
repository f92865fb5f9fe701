#!/usr/bin/env python3
"""View recorded sessions of a relay daemon, and compare the lines with those that babeltrace2 printed.

    live_replay.py TRACEMILL FOLDER

FOLDER has a folder for each exchange, with `client.bin` and `server.bin` (all bytes of a connection in both directions),
`expected.txt`, and `trace/` (what the relay daemon had written). Each is served twice:

- by command and stream: a request gets the answer that the same request got in the recording, in the same order;
- where `expected.txt` is all of `trace/`, by a server that reads the stream files and their indexes, answers in pieces of
  random sizes, and says "later" and "nothing until then" between packets.

Exit status 1: lines differ, or the viewer asked for something that no answer fits.
"""
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

STREAM_ENTRY = 20 + 4096 + 255


class Replay:
    """The recorded answers, by what they answer."""

    def __init__(self, folder):
        self.client, self.server = ((folder / name).read_bytes() for name in ("client.bin", "server.bin"))
        self.answers, self.open = {}, set()
        asked = answered = 0
        while asked < len(self.client):
            size, command, _ = struct.unpack_from(">QII", self.client, asked)
            body = self.client[asked + 16:asked + 16 + size]
            asked += 16 + size
            end = answered + self.length(command, answered)
            if end > len(self.server):
                break
            self.answers.setdefault(self.key(command, body), []).append(self.server[answered:end])
            answered = end
        self.open = {key for key in self.answers if key[0] == 4}

    def length(self, command, at):
        word = lambda offset: int.from_bytes(self.server[at + offset:at + offset + 4], "big")
        if command == 1:
            return 20
        if command == 2:
            return 4 + word(0) * (20 + 64 + 255)
        if command == 3:
            return 8 + word(4) * STREAM_ENTRY
        if command == 4:
            return 64
        if command == 5:
            return 12 + (word(4) if word(0) == 1 else 0)
        if command == 6:
            return 12 + (word(4) if word(8) == 1 else 0)
        if command == 7:
            return 8 + (word(4) * STREAM_ENTRY if word(0) == 1 else 0)
        return 4

    @staticmethod
    def key(command, body):
        return (command, {4: body[:8], 5: body, 6: body[:8]}.get(command, b""))

    def answer(self, command, body):
        key = self.key(command, body)
        known = self.answers.get(key)
        if not known:
            return None
        first = known[0]
        status = int.from_bytes(first[:4], "big")
        if command == 7 and status == 4 and self.open:
            # The session was closed once all streams had ended.
            return struct.pack(">II", 2, 0)
        if len(known) > 1:
            known.pop(0)
        if command == 4 and int.from_bytes(first[56:60], "big") in (3, 6):
            self.open.discard(key)
        return first


class Files:
    """A server that has a trace on disk."""

    def __init__(self, trace, seed):
        self.random, self.streams, self.metadata = random.Random(seed), {}, {}
        for number, metadata in enumerate(sorted(trace.rglob("metadata"))):
            text = metadata.read_bytes()
            cut = self.random.randrange(1, len(text))
            self.metadata[1000 + number] = [text[:cut], text[cut:]]
            for file in sorted(metadata.parent.iterdir()):
                index = metadata.parent / "index" / f"{file.name}.idx"
                if file.is_file() and index.exists():
                    self.streams[len(self.streams) + 1] = (number, file, self.entries(index), [0])

    @staticmethod
    def entries(path):
        data = path.read_bytes()
        size = int.from_bytes(data[12:16], "big")
        return [struct.unpack_from(">7Q", data, at) for at in range(16, len(data), size)]

    def entry(self, stream, trace, is_metadata, name):
        return struct.pack(">QQI", stream, trace, is_metadata) + f"t{trace}".encode().ljust(4096, b"\0") + name.encode().ljust(255, b"\0")

    def answer(self, command, body):
        number = lambda at: int.from_bytes(body[at:at + 8], "big")
        if command == 1:
            return struct.pack(">QIII", 1, 2, 13, 0)
        if command == 2:
            return struct.pack(">IQIII", 1, 5, 40_000, 0, 9) + b"mill".ljust(64, b"\0") + b"files".ljust(255, b"\0")
        if command == 3:
            entries = [self.entry(id, trace, 0, file.name) for id, (trace, file, _, _) in self.streams.items()]
            entries += [self.entry(id, id - 1000, 1, "metadata") for id in self.metadata]
            return struct.pack(">II", 1, len(entries)) + b"".join(entries)
        if command == 4:
            _, _, entries, at = self.streams[number(0)]
            blank = lambda end, status: struct.pack(">7QII", 0, 0, 0, 0, end, 0, 0, status, 0)
            if self.random.random() < 0.4:
                if self.random.random() < 0.5 and at[0]:
                    return blank(entries[at[0] - 1][4], 5)
                return blank(0, 2)
            if at[0] == len(entries):
                return blank(0, 3)
            at[0] += 1
            return struct.pack(">7QII", *entries[at[0] - 1], 1, 0)
        if command == 5:
            _, file, _, _ = self.streams[number(0)]
            length = int.from_bytes(body[16:20], "big")
            if self.random.random() < 0.2:
                return struct.pack(">III", 2, 0, 0)
            with file.open("rb") as data:
                data.seek(number(8))
                return struct.pack(">III", 1, length, 0) + data.read(length)
        if command == 6:
            pieces = self.metadata[number(0)]
            if pieces and self.random.random() < 0.7:
                piece = pieces.pop(0)
                return struct.pack(">QI", len(piece), 1) + piece
            return struct.pack(">QI", 0, 2)
        if command == 7:
            return struct.pack(">II", 4 if all(at[0] == len(entries) for _, _, entries, at in self.streams.values()) else 2, 0)
        return struct.pack(">I", 1)


def serve(server, sizes, seed):
    """The port on which a server answers one viewer, in pieces of these sizes; all at once when there are none."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    pieces = random.Random(seed)

    def run():
        viewer, _ = listener.accept()
        viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with viewer, viewer.makefile("rb") as requests:
            while header := requests.read(16):
                size, command, _ = struct.unpack(">QII", header)
                body = requests.read(size)
                answer = server.answer(command, body)
                if answer is None:
                    print(f"nothing answers command {command} {body.hex()}")
                    return
                while answer:
                    size = pieces.choice(sizes) if sizes else len(answer)
                    viewer.sendall(answer[:size])
                    answer = answer[size:]

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def view(tracemill, port, session, options=()):
    command = [tracemill, "print", "--clock-gmt", "--no-delta", "--no-wait", *options, f"net://127.0.0.1:{port}/host/mill/{session}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        print(f"status {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def main():
    tracemill, root = sys.argv[1], Path(sys.argv[2])
    failed = compared = 0

    def compare(what, ours, expected):
        nonlocal failed, compared
        compared += 1
        if ours != expected:
            at = next((at for at, pair in enumerate(zip(ours, expected)) if pair[0] != pair[1]), min(len(ours), len(expected)))
            print(f"{what}: {len(ours)} lines, expected {len(expected)}; line {at + 1} differs: {ours[at:at + 1]}, expected {expected[at:at + 1]}")
            failed += 1

    for folder in sorted(root.iterdir()):
        if not (folder / "server.bin").exists():
            continue
        expected = (folder / "expected.txt").read_text().splitlines()
        if (folder / "turns.jsonl").exists():
            session = re.search(r"'mill', '(\w+)'", (folder / "messages.txt").read_text()).group(1)
            for sizes in ((), (1, 2, 3, 500)):
                port = serve(Replay(folder), sizes, 1)
                compare(f"{folder.name}, replayed", view(tracemill, port, session), expected)
            continue
        for seed in range(3):
            port = serve(Files(folder / "trace", seed), (1, 7, 1000, 5000) if seed else (), seed)
            # The recorded viewer has nothing to do with this server, but its lines are those of the whole trace.
            compare(f"{folder.name}, from its files", view(tracemill, port, "files", ["--from-beginning"]), expected)
    print(f"{compared} views compared, {failed} differ")
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
