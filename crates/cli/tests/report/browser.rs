//! A real browser, driven by its debugging protocol through a pair of pipes.

use crate::common::Place;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

pub(crate) struct Browser {
    child: Child,
    orders: File,
    answers: BufReader<File>,
    sent: u64,
    /// The open tab.
    session: Option<String>,
    /// Errors that it logged so far.
    pub(crate) complaints: Vec<String>,
}

impl Browser {
    /// Starts the browser with an empty profile.
    pub(crate) fn open(place: &Place) -> Self {
        place.runs(0, "mkfifo", &["orders", "answers"]);
        // It reads from descriptor 3 and writes to descriptor 4.
        let flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-quic --disable-sync \
                     --disable-background-networking --disable-component-update --remote-debugging-pipe";
        let command =
            format!("exec chromium {flags} --user-data-dir=\"$PWD/profile\" about:blank 3<orders 4>answers");
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(&place.0).stdin(Stdio::null());
        let child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell");
        let orders = File::options().write(true).open(place.path("orders")).expect("a pipe");
        let answers = BufReader::new(File::open(place.path("answers")).expect("a pipe"));
        let mut browser = Self { child, orders, answers, sent: 0, session: None, complaints: Vec::new() };
        let targets = browser.order("Target.getTargets", &json!({}));
        let tab = targets["targetInfos"]
            .as_array()
            .and_then(|all| all.iter().find(|target| target["type"] == "page"));
        let tab = tab.expect("a tab")["targetId"].clone();
        let attached = browser.order("Target.attachToTarget", &json!({ "targetId": tab, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.order(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Executes a command and returns its result.
    #[track_caller]
    pub(crate) fn order(&mut self, method: &str, params: &Value) -> Value {
        self.sent += 1;
        let mut order = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        write!(self.orders, "{order}\0").expect("it listens");
        loop {
            let answer = self.receive();
            if answer["id"] == self.sent {
                assert_eq!(answer["error"], Value::Null, "{order}");
                return answer["result"].clone();
            }
        }
    }

    /// Reads the next message.
    fn receive(&mut self) -> Value {
        let mut output_text = Vec::new();
        self.answers.read_until(0, &mut output_text).expect("it speaks");
        assert_eq!(output_text.pop(), Some(0), "the browser is gone; `cargo xtask test` installs chromium");
        let output_text: Value = serde_json::from_slice(&output_text).expect("JSON");
        let report = &output_text["params"];
        match output_text["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(report["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") => self.complaints.push(report["args"].to_string()),
            Some("Log.entryAdded") => self.complaints.push(report["entry"]["text"].to_string()),
            _ => {}
        }
        output_text
    }

    /// Opens a page in a window of this size, with a light or dark colour scheme.
    pub(crate) fn visit(&mut self, place: &Place, page: &str, (width, height): (u32, u32), likes: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.order("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": likes }]);
        self.order("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let address = format!("file://{}", place.path(page).display());
        self.order("Page.navigate", &json!({ "url": address }));
        while self.receive()["method"] != "Page.loadEventFired" {}
    }

    /// Runs a script in the page and returns its result.
    #[track_caller]
    pub(crate) fn run(&mut self, script: &str) -> Value {
        let script = format!("(async () => {{ {script} }})()");
        let request = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let got = self.order("Runtime.evaluate", &request);
        assert_eq!(got["exceptionDetails"], Value::Null, "{script}");
        got["result"]["value"].clone()
    }

    /// Presses a key, as a person does.
    pub(crate) fn press(&mut self, key: &str) {
        let mut event = json!({ "type": "keyDown", "key": key });
        if key.chars().count() == 1 {
            event["text"] = key.into();
        }
        self.order("Input.dispatchKeyEvent", &event);
        self.order("Input.dispatchKeyEvent", &json!({ "type": "keyUp", "key": key }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
