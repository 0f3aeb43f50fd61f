"""gdb commands of unsnarl: they show the position of a replay in its trace, and move to other positions.

The program follows the schedule of a trace, on kernel threads of which one runs at a time. Its runtime maintains a
board, the symbol `unsnarl_debug` (crates/runtime/src/debug.rs has its layout), and calls `unsnarl_debug_stop` at
each requested stop.
"""

import json
import os
import shlex
import struct
import subprocess

import gdb
from gdb.FrameDecorator import FrameDecorator  # noqa: F401 (loads what frame filters need)

NEVER = 2**64 - 1
RUNTIME = "libunsnarl_rt.so"
NO_STOP, BEGIN, SWITCH, EVENT, END = range(5)
LEVELS = {"none": 0, "preemptions": 1, "switches": 2}
DEADLY = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGKILL")
# In the order of unsnarl_wire::EndKind.
ENDS = ("", "exit", "deadlock", "signal", "assertion", "livelock", "timeout", "full", "plan end", "diverged", "refused",
        "internal")


class Board:
    """The runtime's debugger interface, read again each time, because the program runs in between."""

    HEAD = struct.Struct("<II4Q3Q4I")
    ENDED = 1 << 31

    def __init__(self):
        if not gdb.selected_inferior().pid:
            raise gdb.GdbError("the program is not running: `unsnarl start` starts it")
        try:
            # Works in any language of the program.
            self.at = int(gdb.execute("with language c -- output/d (unsigned long)&unsnarl_debug", to_string=True))
            fields = self.HEAD.unpack(self.memory(self.at, self.HEAD.size))
        except gdb.error:
            raise gdb.GdbError("the runtime of unsnarl is not in the program: `unsnarl start` restarts it")
        (self.version, self.reason, events, current, self.control, self.end, self.stop_at, self.picked, self.start,
         self.level, self.origin, self.preempted, self.threads) = fields
        if self.version not in (0, 1):
            raise gdb.GdbError("the program contains the runtime of another version of unsnarl")
        self.begun = events != 0
        self.next = self.number(events, "<Q") if self.begun else 0
        self.current = self.number(current, "<H") if self.begun else 0

    def memory(self, at, size):
        return gdb.selected_inferior().read_memory(at, size).tobytes()

    def number(self, at, form):
        return struct.unpack(form, self.memory(at, struct.calcsize(form)))[0]

    def kernel_ids(self):
        """The kernel's id of each thread, with ENDED if it has ended."""
        return struct.unpack("<%dI" % self.threads, self.memory(self.at + self.HEAD.size, 4 * self.threads))

    def outcome(self):
        """How the run ended, and the runtime's message."""
        kind, _, _, length = struct.unpack("<IiII", self.memory(self.end, 16))
        text = self.memory(self.end + 48, min(length, 2000)) if length else b""
        return ENDS[kind] if kind < len(ENDS) else "", text.decode("utf-8", "replace")

    def ask(self, stop_at, level):
        """Stop where this event is next, and at switches of this level."""
        gdb.selected_inferior().write_memory(self.at + 40, struct.pack("<Q", stop_at))
        gdb.selected_inferior().write_memory(self.at + 64, struct.pack("<I", level))


class Output:
    """The program's output: files in memory, shown when it stops."""

    def __init__(self, process):
        self.streams = []
        for number, to in ((1, gdb.STDOUT), (2, gdb.STDERR)):
            try:
                fd = os.open("/proc/%d/fd/%d" % (process, number), os.O_RDONLY | os.O_CLOEXEC)
                self.streams.append((os.fdopen(fd, "rb"), to))
            except OSError:
                pass

    def show(self):
        for stream, to in self.streams:
            text = stream.read()
            if text:
                gdb.write(text.decode("utf-8", "replace"), to)

    def close(self):
        for stream, _ in self.streams:
            stream.close()


class Session:
    """A trace and its replay."""

    def __init__(self, unsnarl, trace, front_end):
        self.front_end = front_end
        info = subprocess.run([unsnarl, "debugger-info", trace], stdout=subprocess.PIPE, check=False)
        if info.returncode != 0:
            raise gdb.GdbError("unsnarl cannot read %s" % trace)
        self.trace = json.loads(info.stdout)
        self.events = self.trace["events"]
        self.output = None
        # The first stop that is requested when the run begins.
        self.first_stop = NEVER
        self.first_level = None
        # While one of our commands runs, messages are collected and printed at its end.
        self.said = None
        self.end_reported = False
        wrapper = " ".join(shlex.quote(word) for word in (unsnarl, "debuggee", trace))
        for setting in ("disable-randomization on", "startup-with-shell on", "exec-wrapper " + wrapper,
                        "breakpoint pending on", "print thread-events off",
                        "detach-on-fork on", "follow-fork-mode parent"):
            gdb.execute("set " + setting, to_string=True)
        # System calls of libraries may arrive at the runtime as signals.
        gdb.execute("handle SIGSYS nostop noprint pass", to_string=True)
        if not gdb.current_progspace().filename:
            gdb.execute("file " + shlex.quote(self.trace["program"]), to_string=True)
        self.stop = None
        gdb.events.new_objfile.connect(self.loaded)
        gdb.events.stop.connect(self.stopped)
        gdb.events.exited.connect(self.exited)
        # During a function call by gdb: the address of the control word that was overwritten, and its old value.
        self.call = None
        gdb.events.inferior_call.connect(self.called)
        gdb.events.cont.connect(self.goes_on)

    # Names and words

    def thread(self, number):
        names = self.trace["threads"]
        return names[number] if number < len(names) else "?"

    def id(self, number):
        return self.thread(number).split(" ")[0]

    def text(self, number):
        return self.trace["texts"][number]

    def event(self, number):
        """An event in a line."""
        if number >= len(self.events):
            return "the end: the trace has %d events" % len(self.events)
        thread, words, place, source, _ = self.events[number]
        line = "event %d of %d: %s, %s" % (number, len(self.events), self.thread(thread), self.text(words))
        if self.text(place):
            line += " at " + self.text(place)
        if self.text(source):
            line += " │ " + self.text(source)
        return line

    def switch(self, board):
        """The switch that just happened, in a line."""
        origin, to = self.id(board.origin), self.id(board.current)
        if board.preempted:
            return "%s → %s: preempts %s" % (origin, to, origin)
        why = self.events[board.next][4] if board.next < len(self.events) else None
        return "%s → %s" % (origin, to) + (": " + self.text(why) if why is not None else "")

    def name_threads(self, board):
        for number, kernel in enumerate(board.kernel_ids()):
            ended = " (ended)" if kernel & Board.ENDED else ""
            for thread in gdb.selected_inferior().threads():
                if thread.ptid[1] == kernel & ~Board.ENDED:
                    thread.name = self.thread(number) + ended

    # gdb events

    def loaded(self, event):
        if self.stop is None and os.path.basename(event.new_objfile.filename) == RUNTIME:
            self.stop = Stop()

    def begin(self, board):
        """The runtime took control; no code of the program has run under it yet."""
        if self.output:
            self.output.close()
        self.output = Output(gdb.selected_inferior().pid)
        self.end_reported = False
        gdb.set_convenience_variable("_exitsignal", None)
        # A thread that steps may have to wait for others.
        gdb.execute("set scheduler-locking off", to_string=True)
        level = wanted_level() if self.first_level is None else self.first_level
        board.ask(self.first_stop, level)
        self.first_stop, self.first_level = NEVER, None

    def say(self, text):
        if self.said is None:
            gdb.write(text + "\n")
        else:
            self.said.append(text)

    def stopped(self, event):
        if self.output:
            self.output.show()
        try:
            board = Board()
        except gdb.GdbError:
            return
        if not board.begun:
            return
        self.name_threads(board)
        hit = isinstance(event, gdb.BreakpointEvent) and self.stop in event.breakpoints
        if hit:
            self.report_stop(board)
        elif isinstance(event, gdb.SignalEvent) and event.stop_signal in DEADLY:
            self.report_death(board, event.stop_signal)

    def report_stop(self, board):
        if board.reason == SWITCH:
            self.say(self.switch(board))
        if board.reason in (SWITCH, EVENT):
            self.say(self.event(board.next))
        elif board.reason == END:
            self.report_end(board)
        self.show_frame()

    def show_frame(self):
        """Selects the innermost frame of the program's own code, and shows it."""
        frame = first_frame(is_program)
        if frame is None:
            return
        frame.select()
        if self.said is None:
            gdb.execute("frame")

    def report_end(self, board):
        kind, message = board.outcome()
        self.end_reported = True
        if kind == self.trace["kind"]:
            self.say("the same outcome as in the trace:\n" + self.trace["outcome"].rstrip())
        elif kind == "plan end":
            self.say("the trace ends here: " + self.trace["outcome"].rstrip())
        elif kind == "diverged":
            self.say("the program left the schedule of the trace before event %d (did you call a function or "
                     "change memory?)\n%s" % (board.next, self.event(board.next)))
        else:
            self.say("the outcome differs from the trace: %s %s" % (kind, message))

    def report_death(self, board, signal):
        self.end_reported = True
        if board.next >= len(self.events) - 1 and self.trace["kind"] not in ("exit", "deadlock", "livelock"):
            self.say("%s: the same outcome as in the trace:\n%s" % (signal, self.trace["outcome"].rstrip()))
        else:
            self.say("%s, after %d of the trace's %d events" % (signal, board.next, len(self.events)))
        self.show_frame()

    def exited(self, event):
        if self.output:
            self.output.show()
            self.output.close()
            self.output = None
        status = getattr(event, "exit_code", None)
        killed_by_gdb = status is None and gdb.convenience_variable("_exitsignal") is None
        if self.end_reported or killed_by_gdb:
            return
        ended = "a signal" if status is None else "exit status %d" % status
        expected = self.trace["status"]
        same = self.trace["kind"] == "signal" if status is None else expected is not None and status == expected & 0xFF
        if same:
            self.say("%s: the same outcome as in the trace" % ended)
        else:
            self.say("%s; the trace ended like this: %s" % (ended, self.trace["outcome"].rstrip()))

    def called(self, event):
        """gdb calls a function of the program, which must not count as an operation of the thread."""
        board = Board()
        if not board.begun:
            return
        if isinstance(event, gdb.InferiorCallPreEvent):
            if self.call is None:
                self.call = (gdb.newest_frame().pc(), board.control, board.memory(board.control, 8))
                gdb.selected_inferior().write_memory(board.control, bytes(8))
        else:
            self.call_is_over()

    def call_is_over(self):
        if self.call is not None:
            _, place, word = self.call
            self.call = None
            gdb.selected_inferior().write_memory(place, word)

    def goes_on(self, event):
        """Restores the thread's state if the call was never made."""
        if self.call is not None and gdb.newest_frame().pc() == self.call[0]:
            self.call_is_over()

    # Implementation of the commands

    def go(self, how, stop_at, level):
        """Continues until that stop, and prints all messages at the end."""
        self.said = []
        try:
            if how == "run":
                self.first_stop, self.first_level = stop_at, level
            else:
                Board().ask(stop_at, level)
            shown = gdb.execute("with confirm off -- " + how, to_string=True)
        finally:
            said, self.said = self.said, None
        alive = gdb.selected_inferior().pid != 0
        if not said:
            # Something else stopped it: a breakpoint of the user's.
            gdb.write(shown)
        for text in said:
            gdb.write(text + "\n")
        if alive:
            try:
                Board().ask(NEVER, wanted_level())
                if said:
                    self.show_frame()
            except gdb.error:
                pass


class Stop(gdb.Breakpoint):
    """The breakpoint at which the runtime stops."""

    def __init__(self):
        super().__init__("unsnarl_debug_stop", internal=True)
        # A front end needs a report of every stop; a person, only the program's position.
        self.silent = not SESSION.front_end

    def stop(self):
        board = Board()
        if board.reason == BEGIN:
            SESSION.begin(board)
            return False
        return board.reason != NO_STOP


SESSION = None


def session():
    if SESSION is None:
        raise gdb.GdbError("no trace: start gdb by `unsnarl replay TRACE --gdb`")
    return SESSION


def unsnarl_load(unsnarl, trace, front_end=False):
    """Starts a session for a trace, driven by a person or by a front end."""
    global SESSION
    SESSION = Session(unsnarl, trace, front_end)


def wanted_level():
    return LEVELS[gdb.parameter("unsnarl-stops")]


def is_ours(frame):
    name = gdb.solib_name(frame.pc())
    return name is not None and os.path.basename(name) == RUNTIME


def is_program(frame):
    """Returns whether the frame is user code: neither the runtime's nor a system library's."""
    name = gdb.solib_name(frame.pc())
    return frame.find_sal().symtab is not None and not (name and name.startswith(("/lib", "/usr/lib"))) and not is_ours(frame)


def first_frame(wanted):
    frame = gdb.newest_frame()
    while frame is not None and not wanted(frame):
        frame = frame.older()
    return frame


class WithoutRuntime:
    """Hides the runtime's frames in backtraces; `bt -no-filters` shows them."""

    name = "unsnarl"
    priority = 100
    enabled = True

    def filter(self, frames):
        return (frame for frame in frames if not is_ours(frame.inferior_frame()))


gdb.frame_filters["unsnarl"] = WithoutRuntime()


class Stops(gdb.Parameter):
    """Context switches at which the program stops: switches (all of them), preemptions, or none."""

    set_doc = "Set the context switches at which the program stops: switches, preemptions or none."
    show_doc = "Show the context switches at which the program stops."

    def __init__(self):
        super().__init__("unsnarl-stops", gdb.COMMAND_RUNNING, gdb.PARAM_ENUM, ["switches", "preemptions", "none"])
        self.value = "switches"

    def get_set_string(self):
        try:
            if SESSION is not None and gdb.selected_inferior().pid:
                Board().ask(NEVER, LEVELS[self.value])
        except gdb.GdbError:
            pass
        return ""

    def get_show_string(self, value):
        return "The program stops at %s of the schedule." % value


class Unsnarl(gdb.Command):
    """Follow the schedule of a trace: start, where, next-switch, next-preemption, goto, thread."""

    def __init__(self):
        super().__init__("unsnarl", gdb.COMMAND_RUNNING, prefix=True)


class Start(gdb.Command):
    """Start or restart the program, and stop before its first event."""

    def __init__(self):
        super().__init__("unsnarl start", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        session().go("run", 0, 0)


class WhereCommand(gdb.Command):
    """Show the next event of the trace, with its thread and source line."""

    def __init__(self):
        super().__init__("unsnarl where", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        s, board = session(), Board()
        gdb.write("%s runs; next is %s\n" % (s.thread(board.current), s.event(board.next)))
        if board.next >= len(s.events):
            gdb.write(s.trace["outcome"].rstrip() + "\n")
            return
        later = (n for n in range(board.next + 1, len(s.events)) if s.events[n][0] != s.events[n - 1][0])
        switch = next(later, None)
        if switch is not None:
            gdb.write("the next switch is at %s\n" % s.event(switch))


class NextSwitch(gdb.Command):
    """Continue to the next context switch of the schedule. With an argument N, to the N-th."""

    def __init__(self, name, level):
        super().__init__(name, gdb.COMMAND_RUNNING)
        self.level = level

    def invoke(self, argument, from_tty):
        for _ in range(number(argument) if argument else 1):
            session().go("continue", NEVER, LEVELS[self.level])
            if gdb.selected_inferior().pid == 0 or Board().reason not in (SWITCH, EVENT):
                return


class Thread(gdb.Command):
    """Select a thread by its name in the trace, like 0.2, and its innermost frame in the program's own code."""

    def __init__(self):
        super().__init__("unsnarl thread", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        s, board = session(), Board()
        for number, kernel in enumerate(board.kernel_ids()):
            for thread in gdb.selected_inferior().threads():
                if s.id(number) == argument.strip() and thread.ptid[1] == kernel & ~Board.ENDED:
                    thread.switch()
                    gdb.write("thread %s\n" % s.thread(number))
                    s.show_frame()
                    return
        raise gdb.GdbError("there is no thread `%s` now: `info threads` lists the threads" % argument)


class LeaveRuntime(gdb.Command):
    """Runs before a step. A thread that was stopped by the schedule is inside the runtime, at an operation of the
    program's line. It finishes the operation first, so that the step is one of the program."""

    def __init__(self):
        super().__init__("unsnarl leave-runtime", gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        thread = gdb.selected_thread()
        if SESSION is None or thread is None or not thread.is_valid() or not is_ours(gdb.newest_frame()):
            return
        frame = first_frame(is_program)
        # A thread that is about to start has no frame of the program yet.
        if frame is None:
            pc = Board().start
        else:
            pc = frame.pc()
            after = gdb.find_pc_line(pc)
            if after.pc == pc and after.line != frame.find_sal().line:
                # The line is finished: the step goes to the return from the callee.
                pc = frame.newer().pc()
        back = gdb.Breakpoint("*%#x" % pc, internal=True)
        back.silent = True
        back.thread = thread.num
        try:
            shown = gdb.execute("continue", to_string=True)
        finally:
            if back.is_valid():
                back.delete()
        now = gdb.selected_thread()
        if now is None or now.num != thread.num or gdb.newest_frame().pc() != pc:
            gdb.write(shown)
            raise gdb.GdbError("the step was not finished: the program stopped elsewhere")


class Goto(gdb.Command):
    """Go to the state before this event, forwards, or backwards by restarting."""

    def __init__(self):
        super().__init__("unsnarl goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        s, wanted = session(), number(argument)
        if wanted >= len(s.events):
            raise gdb.GdbError("the trace has %d events, 0 to %d" % (len(s.events), len(s.events) - 1))
        how = "run"
        if gdb.selected_inferior().pid:
            board = Board()
            at = board.picked if board.picked != NEVER else -1
            if at == wanted and board.reason in (SWITCH, EVENT):
                gdb.write(s.event(wanted) + "\n")
                s.show_frame()
                return
            how = "continue" if at < wanted else "run"
        s.go(how, wanted, 0)


def number(text):
    try:
        return int(text, 0)
    except ValueError:
        raise gdb.GdbError("expected a number, not `%s`" % text)


Stops()
Unsnarl()
Start()
WhereCommand()
NextSwitch("unsnarl next-switch", "switches")
NextSwitch("unsnarl next-preemption", "preemptions")
Goto()
Thread()
LeaveRuntime()
for command in ("next", "step", "until"):
    gdb.execute("define hook-%s\nunsnarl leave-runtime\nend" % command, to_string=True)
