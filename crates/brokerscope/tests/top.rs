//! Tests `top` on a real terminal, tmux's: what it draws, keys, sizes, and that it restores the terminal however it
//! ends. Needs tmux (`setup/debian test`), no privilege.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout for expected output.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
const REPLAY: &str = "top --from samples/journal-stall --speed 50 --utc";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The number of slow requests in the sample, from the second line of `explain`: `270 of 14,585`.
fn slow_of_all() -> String {
    let explained = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(["explain", "samples/journal-stall"])
        .current_dir(project())
        .output()
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    let count = explained.lines().find_map(|line| line.strip_suffix(" requests took 100 ms or longer"));
    count.expect("it counts the slow requests").to_owned()
}

/// A separate tmux server with one terminal; ends when dropped.
struct Tmux(String);

impl Tmux {
    /// Runs a command in a terminal of that size. Then prints its exit status and whether the terminal is restored.
    fn run((width, height): (u16, u16), command: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Self(format!("brokerscope-{}-{number}", std::process::id()));
        let shell = format!(
            "before=$(stty -g); {command}; echo \"status $?\"; \
             [ \"$before\" = \"$(stty -g)\" ] && echo 'terminal as it was'; exec sleep 600"
        );
        let (width, height) = (width.to_string(), height.to_string());
        tmux.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &shell]);
        tmux
    }

    /// The binary, with these variables set.
    fn brokerscope(size: (u16, u16), variables: &str, arguments: &str) -> Self {
        Self::run(
            size,
            &format!("env -u NO_COLOR {variables} {} {arguments}", env!("CARGO_BIN_EXE_brokerscope")),
        )
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-L", &self.0])
            .args(arguments)
            .current_dir(project())
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .expect("tmux is needed: `setup/debian test` installs it");
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The text on the screen.
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen once all of these words are on it.
    fn wait_for(&self, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if words.iter().all(|word| screen.contains(word)) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{words:?} did not come:\n{screen}");
            std::thread::sleep(LOOK);
        }
    }

    /// A property of the terminal, from tmux.
    fn known(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).trim().to_owned()
    }

    /// Waits until it has ended with this status, with the terminal restored.
    fn wait_for_end(&self, status: &str) -> String {
        let screen = self.wait_for(&[status, "terminal as it was"]);
        assert_eq!(self.known("#{alternate_on} #{cursor_flag}"), "0 1", "{screen}");
        screen
    }

    /// The process that was started in the terminal.
    fn child(&self) -> String {
        let shell = self.known("#{pane_pid}");
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.split_whitespace().next().expect("it runs").to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let kill = Command::new("tmux").args(["-L", &self.0, "kill-server"]).output();
        // During a panic, a second one would end the test without a message.
        assert!(kill.is_ok_and(|kill| kill.status.success()) || std::thread::panicking());
    }
}

#[test]
fn replay_is_displayed_and_quitting_restores_the_terminal() {
    let tmux = Tmux::brokerscope((80, 24), "", REPLAY);
    let slow = format!("{} took 100 ms or longer", slow_of_all());
    let screen = tmux.wait_for(&["ended", &slow, "journal-commit"]);
    assert_eq!(tmux.known("#{alternate_on}"), "1");
    for word in
        ["requests/s", "p99", "nothing lost", "broker 1 on vm", "LATENCY", "STAGES", "AAAAAA", "topicA-"]
    {
        assert!(screen.contains(word), "{word}\n{screen}");
    }
    tmux.press(&["2"]);
    tmux.wait_for(&["VICTIMS", "jbd2 commit"]);
    tmux.press(&["3"]);
    tmux.wait_for(&["WHY", "journal-commit 100%", ".log"]);
    tmux.press(&["4"]);
    tmux.wait_for(&["WRITE/s", "MOVED"]);
    tmux.press(&["5", "t"]);
    tmux.wait_for(&["THREADS", "by role"]);
    tmux.press(&["1", "Enter"]);
    tmux.wait_for(&["WHERE ITS TIME WENT", "EVIDENCE", "append"]);
    tmux.press(&["Escape"]);
    tmux.wait_for(&["PARTITION"]);
    tmux.press(&["F1"]);
    tmux.wait_for(&["Keys", "sort by another column"]);
    tmux.press(&["F10"]);
    tmux.wait_for_end("status 0");
}

#[test]
fn screen_fills_a_resized_terminal() {
    let tmux = Tmux::brokerscope((80, 24), "", REPLAY);
    tmux.wait_for(&["ended", "journal-commit"]);
    tmux.tmux(&["resize-window", "-x", "200", "-y", "60"]);
    let wide = tmux.wait_for(&["WAITED FOR", "ADDRESS", "F10Quit"]);
    assert_eq!(wide.lines().count(), 60, "{wide}");
    assert!(wide.lines().any(|line| line.chars().count() > 150), "{wide}");
    tmux.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    let begun = Instant::now();
    while tmux.screen().contains("WAITED FOR") {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(LOOK);
    }
    tmux.wait_for(&["F10Quit", "journal-commit"]);
    tmux.press(&["C-c"]);
    tmux.wait_for_end("status 0");
}

#[test]
fn replay_pauses_and_resumes() {
    let tmux = Tmux::brokerscope((80, 24), "", "top --from samples/journal-stall --speed 0.001 --utc");
    tmux.wait_for(&["replay ×0.001 00:00 of 00:"]);
    tmux.press(&["p"]);
    tmux.wait_for(&["PAUSED", "Resume"]);
    // Doubles the speed again and again, except while paused.
    tmux.press(&["+"; 15]);
    tmux.wait_for(&["PAUSED", "×32.768 00:00"]);
    tmux.press(&["p"]);
    tmux.wait_for(&["ended", &slow_of_all()]);
    tmux.press(&["q"]);
    tmux.wait_for_end("status 0");
}

#[test]
fn signals_restore_the_terminal() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let tmux = Tmux::brokerscope((80, 24), "", REPLAY);
        tmux.wait_for(&["requests/s"]);
        let killed = Command::new("kill").args([&format!("-{signal}"), &tmux.child()]).status().unwrap();
        assert!(killed.success());
        tmux.wait_for_end("status 0");
    }
}

#[test]
fn losing_the_terminal_ends_the_process() {
    for replay in [REPLAY, "top --from samples/journal-stall --speed 0.001 --utc"] {
        let tmux = Tmux::brokerscope((80, 24), "", replay);
        tmux.wait_for(&["requests/s"]);
        let pid = tmux.child();
        let stat = PathBuf::from("/proc").join(&pid).join("stat");
        // The process that adopts it may be slow to reap it: a zombie has ended.
        let goes_on = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        drop(tmux);
        let begun = Instant::now();
        while goes_on() && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
        if goes_on() {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            panic!("it went on without a terminal");
        }
    }
}

/// Not run by itself: the test below runs it in a terminal.
#[test]
#[ignore = "needs a terminal: panic_restores_the_terminal runs it in one"]
fn a_thread_that_panics() {
    let mut screen = top::Screen::take().unwrap();
    screen.clear().unwrap();
    assert!(screen.is_taken());
    assert!(std::thread::spawn(|| panic!("on purpose")).join().is_err());
    assert!(!screen.is_taken(), "what was said of the panic can be read");
    // Ends without dropping the screen.
    std::process::exit(7);
}

#[test]
fn panic_restores_the_terminal() {
    let this = std::env::current_exe().unwrap();
    let command = format!("{} --ignored --exact a_thread_that_panics --nocapture", this.display());
    let tmux = Tmux::run((80, 24), &command);
    let screen = tmux.wait_for_end("status 7");
    assert!(screen.contains("on purpose"), "{screen}");
}

#[test]
fn no_color_variable_disables_colours() {
    /// Whether a text or background colour is set. It is one of the terminal's own by number, or any other (SGR 38
    /// and 48).
    fn has_colour(screen: &str) -> bool {
        let codes = screen.split("\x1b[").skip(1).filter_map(|rest| rest.split('m').next());
        let mut codes = codes.flat_map(|codes| codes.split(';')).filter_map(|code| code.parse::<u8>().ok());
        codes.any(|code| matches!(code, 30..=38 | 40..=48 | 90..=97 | 100..=107))
    }
    for (variables, coloured) in [("", true), ("NO_COLOR=1", false)] {
        let tmux = Tmux::brokerscope((80, 24), variables, REPLAY);
        tmux.wait_for(&["ended", "journal-commit"]);
        let screen = tmux.tmux(&["capture-pane", "-p", "-e"]);
        assert_eq!(has_colour(&screen), coloured, "{variables}: {screen:?}");
        tmux.press(&["q"]);
        tmux.wait_for_end("status 0");
    }
}

#[test]
fn refuses_output_that_is_not_a_terminal() {
    let run = |command: &mut Command| -> Output { command.current_dir(project()).output().unwrap() };
    let output = run(Command::new(env!("CARGO_BIN_EXE_brokerscope")).args(REPLAY.split(' ')));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.lines().count() == 1 && messages.contains("standard output is not one"), "{messages}");
    assert!(output.stdout.is_empty());
    let tmux = Tmux::brokerscope((80, 24), "TERM=dumb", REPLAY);
    let screen = tmux.wait_for_end("status 1");
    assert!(screen.contains("TERM is empty or dumb"), "{screen}");
}

#[test]
fn refuses_a_non_recording_before_taking_the_screen() {
    let tmux = Tmux::brokerscope((80, 24), "", "top --from samples");
    let screen = tmux.wait_for_end("status 1");
    assert!(screen.contains("brokerscope: "), "{screen}");
}
