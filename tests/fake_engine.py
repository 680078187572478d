"""An engine with a fault: ``python fake_engine.py FAULT [FILE]``; with none it plays hole 1 first, then 2, 3, ...

It knows no rules, and shares nothing with the code under test. FILE gets its process id, that of the child of "family", and the
options that it was told.
"""

import os
import signal
import subprocess
import sys
import time


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    fault = sys.argv[1] if len(sys.argv) > 1 else "none"
    pids = [os.getpid()]
    if fault == "family":
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
        pids.append(child.pid)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "a", encoding="utf-8") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
    if fault == "crash at start":
        sys.stderr.write("cannot load my book\n")
        sys.exit(3)
    if fault == "deaf":
        time.sleep(600)
    if fault == "ignores quit":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    moves = 0
    for line in sys.stdin:
        words = line.split()
        command = words[0] if words else ""
        if command == "uci":
            say("id name Fake")
            say("option name Hash type spin default 1 min 1 max 64")
            say("option name Move Order type string default 1")
            say("option name Seed type spin default 0 min 0 max 99")
            if fault == "silent at start":
                continue
            say("uciok")
        elif command == "isready":
            say("readyok")
        elif command == "setoption":
            say("info string set " + line.strip())
            if len(sys.argv) > 2:
                with open(sys.argv[2], "a", encoding="utf-8") as file:
                    file.write(line)
        elif command == "position":
            moves = len(words) - words.index("moves") - 1 if "moves" in words else 0
        elif command == "go":
            go(fault, moves)
        elif command == "quit" and fault not in ("ignores quit", "floods after quit"):
            return
        elif command == "quit" and fault == "floods after quit":
            while True:
                say("info string flood " + "x" * 1000)
    if fault in ("ignores quit", "deaf"):
        while True:
            time.sleep(600)


def go(fault, moves):
    say("info depth 1 score cp 0 nodes 1 pv 1")
    if fault == "crash in mid-game" and moves >= 2:
        sys.stderr.write("segmentation violation\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "never answers":
        pass
    elif fault == "illegal move":
        say("bestmove 1")
    elif fault == "garbage":
        sys.stdout.buffer.write(b"\xff\xfe\x00 nonsense\nbest move 3\n\n{}\nbestmove\n")
        sys.stdout.flush()
    elif fault == "floods":
        while True:
            say("info string flood " + "x" * 1000)
    elif fault == "endless line":
        while True:
            sys.stdout.write("x" * 1000)
    elif fault == "answers twice":
        say(f"bestmove {moves // 2 + 1}")
        say(f"bestmove {moves // 2 + 1}")
    else:
        say("bestmove " + str(moves // 2 + 1))


main()
