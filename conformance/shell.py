#!/usr/bin/env python3
"""Use the shell of `tracemill sql` as somebody at a terminal does, in a pseudo-terminal.

    shell.py BIN TRACE_DIR

TRACE_DIR is the folder of `demo/`. Exit status 0 when the shell does all that it must.
"""
import os, pathlib, pty, re, select, signal, sys, tempfile, time

PROMPT = "tracemill> "


class Terminal:
    def __init__(self, words, state, **more):
        self.text = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update({"XDG_STATE_HOME": state, "TERM": "xterm", "NO_COLOR": "1", **more})
            os.execv(words[0], words)

    def until(self, wanted, seconds=60):
        """What comes until a text is there, without what moves the cursor."""
        end = time.monotonic() + seconds
        while wanted not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"`{wanted}` does not come; there is: {self.text!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"the shell is over without `{wanted}`: {self.text!r}")
            self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode("utf-8", "replace")).replace("\r", "")
        at = self.text.index(wanted) + len(wanted)
        seen, self.text = self.text[:at], self.text[at:]
        return seen

    def type(self, text):
        os.write(self.master, text.encode())

    def line(self, text, wanted, seconds=60):
        """Types a line; what comes up to a text behind it."""
        self.type(text + "\r")
        return self.until(wanted, seconds)

    def status(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            # A terminal that nobody reads from keeps a program waiting.
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("the shell does not end")


def main():
    program, demo = sys.argv[1], pathlib.Path(sys.argv[2])
    state = tempfile.mkdtemp()
    history = pathlib.Path(state, "tracemill/sql_history")
    shell = Terminal([os.path.abspath(program), "sql", str(demo / "traces/mill")], state)
    shell.until(PROMPT)
    # Several lines until the semicolon.
    shell.line("select count(*) as n", "n")
    shell.line('from "mill:bell";', "8\n")
    shell.until(PROMPT)
    # An error does not end it.
    shell.line('select grms from "mill:grind";', "did you mean `grams`?")
    shell.until(PROMPT)
    # Tables, quoted where they must be; columns of the tables in the statement; functions; paths.
    shell.type("select count(*) from mill:be\t")
    shell.until('"mill:bell"')
    shell.line(";", "8\n")
    shell.until(PROMPT)
    shell.type('select max(gra\t')
    shell.until("gra")
    shell.type("\x03")
    shell.until(PROMPT)
    shell.type("select count(field(payload, 'grind\t")
    shell.until("'grinder")
    shell.line("')) as n from events;", "1106\n")
    shell.until(PROMPT)
    # Commands.
    shell.line("\\d", "mill:grind")
    shell.until(PROMPT)
    shell.line("\\d mill:grind", "grams")
    shell.until(PROMPT)
    shell.line("\\df", "log2_bucket\n")
    shell.until(PROMPT)
    shell.line("\\f jsonl", PROMPT)
    shell.line("select 1 as one;", '{"one":1}\n')
    shell.until(PROMPT)
    shell.line("\\f table", PROMPT)
    shell.line("\\x", PROMPT)
    shell.line("select 1 as one, 2 as other;", "one   | 1\nother | 2\n")
    shell.until(PROMPT)
    shell.line("\\x", PROMPT)
    shell.line("\\timing", "timing is on\n")
    shell.line("select 1;", "time: ")
    shell.until(PROMPT)
    shell.line("\\timing", "timing is off\n")
    shell.until(PROMPT)
    written = pathlib.Path(state, "answer.csv")
    shell.line(f"\\o {written}", PROMPT)
    shell.line("select 1 as one;", PROMPT)
    assert written.read_text() == "one\n1\n", written.read_text()
    shell.line("\\o", PROMPT)
    script = pathlib.Path(state, "ask.sql")
    script.write_text("select 40 + 2 as answer; select 6 * 7 as again;")
    shell.line(f"\\i {script}", "again\n")
    shell.until("42\n")
    shell.until(PROMPT)
    shell.line("\\none", "there is no command `\\none`")
    shell.until(PROMPT)
    shell.line("help", "\\timing")
    shell.until(PROMPT)
    # A line that begins with a space is not remembered.
    shell.line(" select 'secret';", "secret\n")
    shell.until(PROMPT)
    # Ctrl-C ends the query, not the shell, and soon.
    shell.type("select count(*) from events a, events b, events c where a.ns + b.ns + c.ns = 1;\r")
    shell.until("= 1;\n")
    time.sleep(0.5)
    begin = time.monotonic()
    shell.type("\x03")
    shell.until("the query was interrupted", 10)
    took = time.monotonic() - begin
    shell.until(PROMPT)
    assert took < 2, f"the query went on for {took:.2f} s"
    shell.line("select 1 + 1 as two;", "2\n")
    shell.until(PROMPT)
    # Ctrl-D ends the shell.
    shell.type("\x04")
    status = shell.status()
    assert status == 0, f"status {status}"
    kept = history.read_text()
    assert "1 + 1 as two" in kept and "secret" not in kept, kept
    again = Terminal([os.path.abspath(program), "sql"], state)
    again.until(PROMPT)
    # The last line comes back.
    again.line("\x1b[A", "2\n")
    again.until(PROMPT)
    again.type("\\q\r")
    assert again.status() == 0
    print(f"the shell does what it must; an interrupted query ended after {took * 1000:.0f} ms")


main()
