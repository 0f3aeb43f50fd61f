//! `unsnarl report --html` in a real browser, driven by a script as a reader uses keys and clicks.

mod browser;
#[path = "../common/mod.rs"]
mod common;

use browser::Browser;
use common::Place;
use serde_json::{Value, json};

/// Functions for the scripts of these tests.
const WORDS: &str = r"
const key = (name, target = document) => target.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const text = (selector) => document.querySelector(selector)?.textContent ?? null;
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const type = (words) => {
  const box = document.getElementById('search');
  box.value = words;
  box.dispatchEvent(new Event('input'));
};
const chosen = (run = 0) => {
  const active = all('.scroll')[run].getAttribute('aria-activedescendant');
  const row = document.getElementById(active);
  return row?.getAttribute('aria-selected') === 'true' ? row.getAttribute('aria-label') : `no row ${active}`;
};
const source = () => text('.lines .here span')?.trim();
const back = () => getComputedStyle(document.body).backgroundColor;
await frame();
";

/// Runs a script in a page, checks that there are no errors, and returns its result.
fn browse(place: &Place, size: (u32, u32), script: &str) -> Value {
    let mut browser = Browser::open(place);
    browser.visit(place, "page.html", size, "light");
    let output_text = browser.run(&format!("{WORDS}{script}"));
    assert_eq!(browser.complaints, [""; 0]);
    output_text
}

const DESK: (u32, u32) = (1360, 850);
const PHONE: (u32, u32) = (390, 844);

fn account(name: &str) -> Place {
    let place = Place::new(name);
    place.program("c/account.c");
    place.unsnarl(100, &["hunt", "--html", "page.html", "--", "./account"]);
    place
}

#[test]
fn page_shows_cause_and_navigates_both_runs() {
    let place = account("reader");
    let page = place.read("page.html");
    for outside in ["http://", "https://", " src=", "@import", "url("] {
        // The only address is the SVG namespace.
        let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "the page needs something else: {outside}");
    }
    let output_text = browse(
        &place,
        DESK,
        r"
        const said = {
          headline: text('h1'), why: all('#why li').map((item) => item.textContent), titles: all('.run h2').map((h) => h.textContent),
          lanes: all('.run:first-child .headers > div').map((head) => head.innerText.split('\n')),
          begins: chosen(), before: chosen(1), arrows: all('.run:first-child .arrow').map((arrow) => arrow.textContent),
          stops: all('.run:first-child .arrow.preempts').length, held: all('.run:first-child .hold').map((bar) => bar.title),
          flows: all('.run:first-child svg.flows path').length, ends: all('.run:first-child .end .operation').map((end) => end.textContent),
          lives: all('.run:first-child .life').length,
        };
        key('Home'); said.home = [chosen(), source()];
        key('j'); key('ArrowDown'); key('k'); said.down = chosen();
        key('End'); said.end = chosen();
        key('Home'); key('n'); key('n'); said.second = chosen();
        key('p'); said.first = chosen();
        key('r'); said.race = [chosen(), source(), text('#detail .race button')];
        document.querySelector('#detail .race button').click(); said.other = [chosen(), source()];
        all('#others button')[0].click(); said.others = chosen();
        all('#why button')[0].click(); said.stop = [chosen(), text('#detail')];
        key('o'); key('End'); said.beside = [chosen(), chosen(1)]; key('o');
        type('balance'); said.found = [text('#found'), all('.run:first-child .hit').length];
        key('Enter', document.getElementById('search')); said.hit = chosen();
        key('Enter', document.getElementById('search')); said.again = chosen();
        type('withdraw account.c:20'); said.both = text('#found');
        key('Escape', document.getElementById('search')); said.cleared = [text('#found'), all('.hit').length];
        all('.event')[1].click(); said.clicked = chosen();
        const colours = [back()]; key('t'); colours.push(back()); document.getElementById('theme').click(); colours.push(back());
        said.themes = [new Set(colours).size, colours[0] === colours[2], getComputedStyle(document.documentElement).colorScheme];
        key('?'); said.help = [document.getElementById('keys').hidden, document.getElementById('help').getAttribute('aria-expanded')];
        return said;",
    );
    let expected = json!({
        "headline": "assertion failed in thread 0 at account.c:33, main",
        "why": [
            "lost update: `balance`",
            "thread 0.2 read `balance` = 100 (account.c:19)", "account.c:19 │ int current = balance;",
            "meanwhile thread 0.1 wrote `balance` = 150 (account.c:12)",
            "then thread 0.2 wrote `balance` = 70 over it (account.c:21)", "account.c:21 │ balance = current - 30;",
            "thread 0.2 does not hold `mutex` at account.c:19; it is held at 3 of 4 other accesses to `balance`",
            "if thread 0.2 is not preempted in between, the program ends normally",
        ],
        "titles": ["simplified", "before simplification"],
        "lanes": [["0", "main"], ["0.1", "deposit"], ["0.2", "withdraw"]],
        "begins": "5: thread 0.1 start account.c:10, after a switch from 0.2: preempts 0.2",
        "arrows": ["waits for 0.1 to end", "preempts 0.2", "has ended", "has ended"],
        "stops": 1, "held": ["0.1 holds mutex", "0.2 holds mutex"], "flows": 1, "lives": 3,
        "ends": ["✗ assertion failed"],
        "home": ["0: thread 0 start account.c:27", "{"],
        "down": "1: thread 0 create 0.1 account.c:29",
        "end": "access: thread 0 read balance = 70 account.c:33",
        "second": "5: thread 0.1 start account.c:10, after a switch from 0.2: preempts 0.2",
        "first": "3: thread 0.2 start account.c:18, after a switch from 0: waits for 0.1 to end",
        "race": ["4: thread 0.2 read balance = 100 account.c:19, races with 7", "int current = balance;",
            "races with 7: 0.1 write balance = 150"],
        "other": ["7: thread 0.1 write balance = 150 account.c:12, holds mutex, races with 4", "balance += 50;"],
        "others": "13: thread 0 join 0.1 account.c:31, after a switch from 0.2: has ended",
        "stop": ["5: thread 0.1 start account.c:10, after a switch from 0.2: preempts 0.2",
            "5: thread 0.1 (deposit)startswitch from 0.2: preempts 0.2without this preemption, the program ends normally"],
        "found": ["5 found", 5],
        "hit": "access: thread 0.1 read balance = 100 account.c:12, holds mutex",
        "again": "7: thread 0.1 write balance = 150 account.c:12, holds mutex, races with 4",
        "both": "1 found", "cleared": ["", 0],
        "clicked": "1: thread 0 create 0.1 account.c:29",
        "themes": [2, true, "light"], "help": [false, "true"],
    });
    for (subject, expected) in expected.as_object().expect("an object") {
        assert_eq!(&output_text[subject], expected, "{subject}");
    }
    assert!(output_text["before"].as_str().is_some_and(|label| label.contains("join 0.2")), "{output_text}");
    let beside = output_text["beside"].as_array().expect("both");
    assert_eq!(beside[0], output_text["stop"][0], "the run beside is left alone");
    assert!(beside[1].as_str().is_some_and(|label| label.contains("join 0.2")), "{output_text}");
}

#[test]
fn page_works_on_phones_and_screen_readers() {
    let place = account("phone");
    let script = r"
        const focusable = all('a[href], button, input, [tabindex]').filter((element) => element.tabIndex >= 0 && element.offsetParent);
        const named = (element) => element.getAttribute('aria-label') || element.getAttribute('aria-labelledby') || element.textContent.trim()
          || (element.labels && element.labels.length);
        const lists = all('[role=listbox]');
        return {
          wide: document.documentElement.scrollWidth, window: innerWidth, language: document.documentElement.lang,
          unnamed: focusable.filter((element) => !named(element)).map((element) => element.outerHTML),
          order: focusable.map((element) => element.id || element.className || element.tagName).slice(0, 7),
          lists: lists.map((list) => [list.tabIndex, list.getAttribute('aria-label')]),
          strangers: lists.flatMap((list) => all('*', list)).filter((element) => element.closest('[role=listbox] > *') === element
            && !['option', 'presentation'].includes(element.getAttribute('role'))).length,
          place: [lists[0].querySelector('[role=option]').getAttribute('aria-posinset'), lists[0].querySelector('[role=option]').getAttribute('aria-setsize')],
          hidden: all('.switch, svg.flows').every((element) => element.getAttribute('aria-hidden') === 'true'),
          status: document.getElementById('found').getAttribute('role'), headings: all('h1, h2').map((heading) => heading.tagName)[0],
          regions: all('header, main, aside[aria-label]').length,
          pane: getComputedStyle(document.querySelector('aside')).position,
          lane: all('.run:first-child .headers > div').every((head) => head.getBoundingClientRect().right <= innerWidth),
          smallest: Math.min(...all('.row, aside, header, .about').map((element) => parseFloat(getComputedStyle(element).fontSize))),
        };";
    let mut browser = Browser::open(&place);
    for size in [PHONE, DESK] {
        browser.visit(&place, "page.html", size, "light");
        let output_text = browser.run(&format!("{WORDS}{script}"));
        assert_eq!(output_text["window"], size.0);
        assert_eq!(output_text["wide"], size.0, "nothing sticks out: {output_text}");
        assert_eq!(output_text["unnamed"], json!([]), "{output_text}");
        assert_eq!(
            output_text["lists"][0][1],
            "simplified: 15 events, 3 threads, 4 context switches (1 preemption)"
        );
        assert_eq!(output_text["place"], json!(["1", "18"]));
        assert_eq!(
            (&output_text["strangers"], &output_text["hidden"]),
            (&json!(0), &json!(true)),
            "{output_text}"
        );
        assert_eq!((&output_text["status"], &output_text["language"]), (&json!("status"), &json!("en")));
        assert_eq!((&output_text["headings"], &output_text["regions"]), (&json!("H1"), &json!(3)));
        assert_eq!(output_text["lane"], true, "all lanes are in sight: {output_text}");
        assert!(output_text["smallest"].as_f64() >= Some(13.0), "{output_text}");
        assert_eq!(output_text["pane"], if size == PHONE { "sticky" } else { "static" });
        let order = output_text["order"].as_array().expect("an order");
        assert!(order.contains(&json!("search")) && order[0] == "skip", "{output_text}");
    }
}

#[test]
fn page_shows_where_deadlocked_threads_wait() {
    let place = Place::new("deadlock");
    place.program("c/abba_deadlock.c");
    place.unsnarl(100, &["hunt", "--html", "page.html", "--", "./abba_deadlock"]);
    let output_text = browse(
        &place,
        DESK,
        "return { why: text('#why li'), ends: all('.run:first-child .end .operation').map((end) => end.textContent) };",
    );
    assert_eq!(output_text["why"], "lock-order deadlock");
    assert_eq!(
        output_text["ends"],
        json!(["✗ waits for 0.1 to end", "✗ waits for lock `b`", "✗ waits for lock `a`"])
    );
}

#[test]
fn program_output_is_never_markup() {
    let place = Place::new("markup");
    // Markup in a message, an argument, a file's name and a thread's name.
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *run(void *u) { pthread_setname_np(pthread_self(), "<b id=evil>"); return u; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, run, 0);
  pthread_join(t, 0);
  fputs("</script><script>document.title='evil'</script>", stderr);
  abort();
}
"#;
    let name = "<img src=x onerror=document.title='evil'>.c";
    place.write(name, source);
    place.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "-o", "prog", name]);
    let argument = "</script><script>document.title='evil'</script>{{data}}{{script}}";
    place.unsnarl(100, &["record", "-o", "bug.snarl", "--", "./prog", argument]);
    place.unsnarl(0, &["report", "bug.snarl", "--html", "page.html"]);
    let script = "const said = { title: document.title.split(' ')[0], evil: all('img, b[id], #evil').length, rows: all('.event').length > 3,
        command: text('#command') };
        // Even injected markup must not be fetched.
        document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.invalid/x.png\">');
        await frame();
        return said;";
    let mut browser = Browser::open(&place);
    browser.visit(&place, "page.html", DESK, "light");
    let output_text = browser.run(&format!("{WORDS}{script}"));
    assert_eq!(
        (&output_text["title"], &output_text["evil"], &output_text["rows"]),
        (&json!("prog"), &json!(0), &json!(true))
    );
    assert_eq!(output_text["command"].as_str(), Some(format!("./prog {argument}").as_str()));
    browser.run("return 0");
    assert!(!browser.complaints.is_empty());
    for complaint in &browser.complaints {
        assert!(complaint.contains("Content Security Policy"), "{complaint}");
    }
}

#[test]
fn page_follows_colour_scheme_and_handles_keys() {
    let place = account("theme");
    let mut browser = Browser::open(&place);
    let look = format!("{WORDS} return [back(), text('#theme'), chosen()];");
    let mut seen = Vec::new();
    for likes in ["light", "dark"] {
        browser.visit(&place, "page.html", DESK, likes);
        seen.push(browser.run(&look));
        browser.press("t");
        browser.press("End");
        seen.push(browser.run(&look));
    }
    let colour = |nth: usize| seen[nth][0].as_str().expect("a colour");
    assert_eq!((colour(0), colour(1)), (colour(3), colour(2)), "{seen:?}");
    assert_ne!(colour(0), colour(2));
    assert_eq!((&seen[0][1], &seen[2][1]), (&json!("dark mode"), &json!("light mode")));
    assert_eq!(seen[1][2], "access: thread 0 read balance = 70 account.c:33");
    // In the search field, letters are text.
    browser.press("/");
    for letter in ["l", "o", "c", "k"] {
        browser.press(letter);
    }
    let found =
        browser.run("return [document.activeElement.id, document.getElementById('found').textContent]");
    assert_eq!(found, json!(["search", "4 found"]));
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn long_texts_are_cut_where_the_space_ends() {
    let place = Place::new("wide");
    let name = "counter_of_all_the_requests_that_were_ever_answered_by_any_of_the_workers_".repeat(3);
    let source = r"
#include <pthread.h>
#include <stdlib.h>
static int NAME;
static void *visit(void *a) { NAME++; return a; }
int main(void) {
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, visit, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  if (NAME == 2) abort();
}
";
    let file = "a_file_whose_name_is_longer_than_its_column.c";
    place.write(file, source.replace("NAME", &name));
    place.unsnarl(0, &["cc", "-O0", "-g", "-pthread", "-o", "wide", file]);
    place.unsnarl(100, &["record", "-o", "bug.snarl", "--", "./wide"]);
    place.unsnarl(0, &["report", "bug.snarl", "--html", "page.html"]);
    let script = r"
        const box = (element) => element.getBoundingClientRect();
        const lines = all('.event').map((row) => [row.querySelector('.operation span'), row.querySelector('.where')]);
        const space = box(document.querySelector('.space'));
        return {
          cut: lines.filter(([words]) => words.scrollWidth > words.clientWidth).length,
          covered: lines.filter(([words, where]) => where && box(words).right > box(where).left).length,
          outside: all('.row .cut').filter((part) => box(part).right > space.right || box(part).left < space.left).length,
          complete: all('.event').every((row) => row.title.includes(row.querySelector('.operation').textContent)),
          scrolls: [document.documentElement, document.querySelector('aside')].some((box) => box.scrollWidth > box.clientWidth),
        };";
    let mut browser = Browser::open(&place);
    for size in [PHONE, DESK] {
        browser.visit(&place, "page.html", size, "light");
        let seen = browser.run(&format!("{WORDS}{script}"));
        // Each of two threads reads and writes the counter, and main reads it.
        assert_eq!(seen["cut"], 5, "{seen}");
        assert_eq!((&seen["covered"], &seen["outside"]), (&json!(0), &json!(0)), "{seen}");
        assert_eq!((&seen["complete"], &seen["scrolls"]), (&json!(true), &json!(false)), "{seen}");
    }
    assert_eq!(browser.complaints, [""; 0]);
}

#[test]
fn long_traces_render_one_screen_at_a_time() {
    let place = Place::new("many");
    let source = r"
#include <assert.h>
#include <pthread.h>
static int hits;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *visit(void *a) {
  for (int i = 0; i < 6500; i++) { int h = hits; hits = h + 1; pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
  return a;
}
int main(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, visit, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  assert(hits == 26000);
}
";
    place.write("many.c", source);
    place.unsnarl(0, &["cc", "-O0", "-g", "-pthread", "-o", "many", "many.c"]);
    place.unsnarl(100, &["record", "--seed", "1", "-o", "bug.snarl", "--", "./many"]);
    place.unsnarl(0, &["report", "bug.snarl", "--html", "page.html"]);
    let output_text = browse(
        &place,
        DESK,
        r"
        const scroll = document.querySelector('.scroll');
        const elements = [], rows = [], numbers = [];
        const look = async () => {
          await frame();
          elements.push(all('.scroll *').length);
          rows.push(all('.row').length);
          const events = all('.event');
          numbers.push(Number(events[events.length >> 1].dataset.number));
        };
        for (let at = 0; at <= 1; at += 0.125) { scroll.scrollTop = at * (scroll.scrollHeight - scroll.clientHeight); await look(); }
        key('Home'); await look(); const home = chosen();
        // The last row is an access that is no event.
        key('End'); key('k'); await look(); const end = chosen();
        type('join'); await look();
        const found = text('#found');
        return { elements, rows, numbers, home, end, found, overview: !document.querySelector('.overview').hidden };",
    );
    let numbers = |subject: &str| -> Vec<i64> {
        output_text[subject]
            .as_array()
            .expect("numbers")
            .iter()
            .map(|n| n.as_i64().expect("a number"))
            .collect()
    };
    assert!(numbers("rows").iter().all(|rows| (20..120).contains(rows)), "{output_text}");
    assert!(numbers("elements").iter().all(|elements| (60..1000).contains(elements)), "{output_text}");
    let seen = &numbers("numbers")[1..8];
    assert!(seen.is_sorted() && seen[0] > 5_000 && seen[6] > 80_000, "{output_text}");
    assert_eq!(output_text["home"], "0: thread 0 start many.c:10");
    let end = output_text["end"].as_str().expect("a label");
    assert!(end.split(':').next().and_then(|n| n.parse::<u64>().ok()) > Some(100_000), "{end}");
    assert_eq!((&output_text["found"], &output_text["overview"]), (&json!("4 found"), &json!(true)));
}
