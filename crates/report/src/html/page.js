'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const ROW = 24;
// A lane: a rail with the thread's line and its held locks, its operations, and room for arrows.
const RAIL = 18, ROOM = 12, NUMBER = 44, WHERE = 170;
// The free space at the sides of an operation's text and at the ends of a switch's arrow.
const PADDING = 7, END = 16;
const LOCKS = ['#2f81f7', '#2da44e', '#d4a72c', '#e16f24', '#bf3989', '#1b9aaa', '#8d6e63', '#5c6bc0'];

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const vector = (tag, attributes) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
};
const byId = (id) => document.getElementById(id);
const base = (path) => path.split('/').pop();
const clamp = (value, low, high) => Math.max(low, Math.min(value, high));

/** One run: its rows, of which only those in sight are in the document. */
class Run {
  constructor(trace, index) {
    Object.assign(this, { trace, index, chosen: 0, hits: [], isHit: new Set(), near: [] });
    // A row for each event and one before it for a switch (as -1 - number), then the ends of threads.
    this.rows = [];
    this.rowOf = [];
    this.eventsOf = trace.lanes.map(() => []);
    trace.events.forEach(([lane], number) => {
      if (trace.switches[number]) this.rows.push(-1 - number);
      this.rowOf.push(this.rows.length);
      this.rows.push(number);
      this.eventsOf[lane].push(number);
    });
    this.colour = new Map();
    // Locks that are held at the same time are drawn side by side.
    const last = trace.lanes.map(() => []);
    this.holds = trace.holds.map(([lane, lock, from, to]) => {
      if (!this.colour.has(lock)) this.colour.set(lock, LOCKS[this.colour.size % LOCKS.length]);
      let slot = last[lane].findIndex((end) => end < from);
      if (slot < 0) slot = last[lane].length;
      last[lane][slot] = to;
      return { lane, lock, from, to, slot };
    });
    this.racesOf = new Map();
    trace.races.forEach(([a, b]) => [[a, b], [b, a]].forEach(([one, other]) => {
      this.racesOf.set(one, [...(this.racesOf.get(one) || []), other]);
    }));
    this.build();
  }

  build() {
    const { title, stats, lanes } = this.trace;
    const section = make('section', 'run');
    const about = make('div', 'about');
    const head = make('h2', '', title);
    head.id = `title${this.index}`;
    section.setAttribute('aria-labelledby', head.id);
    const legend = make('span', 'locks');
    [...this.colour].slice(0, LOCKS.length).forEach(([lock, colour]) => {
      const mark = make('i');
      mark.style.setProperty('--lock', colour);
      legend.append(mark, lock);
    });
    about.append(legend, head, ' ', make('span', '', stats));
    this.scroll = make('div', 'scroll');
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute('role', 'listbox');
    this.scroll.setAttribute('aria-label', `${title}: ${stats}`);
    this.headers = make('div', 'headers');
    this.headers.setAttribute('role', 'presentation');
    lanes.forEach((lane) => {
      const head = make('div', '', lane.title);
      head.title = [lane.title, lane.function].filter(Boolean).join(' · ');
      head.append(make('small', '', lane.function || '\u00a0'));
      this.headers.append(head);
    });
    this.space = make('div', 'space');
    this.space.setAttribute('role', 'presentation');
    this.space.style.height = `${(this.rows.length + this.trace.ends.length) * ROW}px`;
    this.overview = make('canvas', 'overview');
    this.overview.setAttribute('aria-hidden', 'true');
    this.scroll.append(this.headers, this.space);
    const view = make('div', 'view');
    view.append(this.scroll, this.overview);
    section.append(about, view);
    byId('runs').append(section);
    this.scroll.addEventListener('scroll', () => this.drawSoon(), { passive: true });
    this.scroll.addEventListener('focus', () => { current = this; details(); });
    this.space.addEventListener('click', (event) => {
      const row = event.target.closest('.event');
      if (row) this.choose(Number(row.dataset.number));
    });
    this.overview.addEventListener('click', (event) => {
      const part = event.offsetY / this.overview.clientHeight;
      this.scroll.scrollTop = part * this.space.clientHeight - this.scroll.clientHeight / 2;
    });
    // In the next frame, because drawing may change the size again.
    new ResizeObserver(() => requestAnimationFrame(() => { this.measure(); this.draw(); this.drawOverview(); }))
      .observe(this.scroll);
  }

  /** How wide a lane is, and whether there is room to say where. */
  measure() {
    const lanes = this.trace.lanes.length, narrow = innerWidth < 900;
    const least = narrow ? 96 : 124, number = narrow ? 30 : NUMBER;
    const room = this.scroll.clientWidth;
    this.number = number;
    this.where = room >= number + lanes * 150 + WHERE;
    this.lane = Math.max(least, (room - number - (this.where ? WHERE : 0)) / lanes);
    this.width = Math.max(room, number + lanes * this.lane);
    this.space.style.width = this.headers.style.width = `${this.width}px`;
    [...this.headers.children].forEach((head, lane) => {
      head.style.left = `${this.x(lane) + RAIL}px`;
      head.style.width = `${this.lane - RAIL - ROOM}px`;
    });
  }

  /** Where a lane begins. */
  x(lane) { return this.number + lane * this.lane; }

  whereOf(number) {
    const [, , file, line] = this.trace.events[number];
    return file === null ? '' : `${base(data.files[file].path)}:${line}`;
  }

  words(number) { return this.trace.texts[this.trace.events[number][1]]; }

  heldAt(lane, number, among = this.holds) {
    return among.filter((hold) => hold.lane === lane && hold.from <= number && number <= hold.to);
  }

  drawSoon() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => { this.asked = 0; this.draw(); });
  }

  /** Puts what is in sight into the document. */
  draw() {
    if (!this.lane) return;
    const all = this.rows.length + this.trace.ends.length;
    const top = Math.floor(this.scroll.scrollTop / ROW);
    const first = clamp(top - 15, 0, all), last = clamp(top + Math.ceil(this.scroll.clientHeight / ROW) + 15, 0, all);
    const parts = [];
    const [from, to] = [first, last].map((at) => this.eventAt(at));
    this.near = this.holds.filter((hold) => hold.from <= to && hold.to >= from);
    const chosen = this.rowOf[this.chosen];
    // The chosen row is always rendered, for screen readers.
    if (chosen < first || chosen >= last) parts.push(this.row(chosen, this.holds));
    for (let at = first; at < last; at++) parts.push(this.row(at));
    this.space.replaceChildren(...this.lives(first, last), ...this.held(first, last), this.flows(first, last), ...parts);
  }

  /** The event at a row, or the one before which there is a switch. */
  eventAt(at) {
    const number = this.rows[at];
    return number === undefined ? this.trace.events.length : number < 0 ? -1 - number : number;
  }

  bar(className, left, first, last) {
    const bar = make('div', className);
    bar.style.cssText = `left:${left}px;top:${first * ROW}px;height:${(last - first) * ROW}px`;
    return bar;
  }

  /** The lines of the threads that live in these rows. */
  lives(first, last) {
    return this.trace.lanes.flatMap((lane, at) => {
      const from = Math.max(first, this.rowOf[lane.from] ?? this.rows.length);
      const to = Math.min(last, lane.to < this.rowOf.length ? this.rowOf[lane.to] + 1 : this.rows.length);
      return from < to ? [this.bar('life', this.x(at) + RAIL - 4, from, to)] : [];
    });
  }

  /** The locks that are held in these rows. */
  held(first, last) {
    return this.near.flatMap((hold) => {
      const from = Math.max(first, this.rowOf[hold.from]);
      const to = Math.min(last, hold.to < this.rowOf.length ? this.rowOf[hold.to] + 1 : this.rows.length);
      if (from >= to) return [];
      const bar = this.bar('hold', this.x(hold.lane) + RAIL - 10 - 5 * Math.min(hold.slot, 2), from, to);
      bar.style.setProperty('--lock', this.colour.get(hold.lock));
      bar.title = `${this.trace.lanes[hold.lane].title} holds ${hold.lock}`;
      return [bar];
    });
  }

  row(at, holds = this.near) {
    const number = this.rows[at];
    const row = number === undefined ? this.endRow(this.trace.ends[at - this.rows.length])
      : number < 0 ? this.switchRow(-1 - number) : this.eventRow(number, at, holds);
    row.style.cssText = `top:${at * ROW}px;height:${ROW}px;line-height:${ROW}px`;
    return row;
  }

  /** What is done in a lane. A long text goes on over the lanes at its right, which are empty in this row. */
  operation(lane, text, where) {
    const operation = make('div', 'operation'), left = this.x(lane) + RAIL;
    const words = make('span', 'cut', text);
    words.style.width = `${this.width - (this.where ? WHERE : 0) - left - 2 * PADDING}px`;
    operation.append(words);
    operation.style.cssText = `left:${left}px;width:${this.lane - RAIL - ROOM}px`;
    if (!this.where) return [operation];
    const place = make('div', 'where cut');
    place.style.maxWidth = `${WHERE - 20}px`;
    place.append(make('bdi', '', where));
    return [operation, place];
  }

  /** The number of an event in the trace; an access that is no event has none. */
  numberOf(number) { return this.trace.numbers[number] ?? ''; }

  named(number) { return this.trace.numbers[number] ?? 'access'; }

  eventRow(number, at, holds) {
    const [lane] = this.trace.events[number];
    const held = this.heldAt(lane, number, holds).map((hold) => hold.lock);
    const row = make('div', 'row event');
    const words = this.words(number), where = this.whereOf(number);
    row.dataset.number = number;
    row.id = `run${this.index}-${number}`;
    row.title = [words, where, held.length && `holds ${held.join(', ')}`].filter(Boolean).join(' · ');
    const attributes = {
      role: 'option', 'aria-selected': number === this.chosen, 'aria-posinset': number + 1,
      'aria-setsize': this.trace.events.length, 'aria-label': this.ariaLabel(number, words, where, held),
    };
    Object.entries(attributes).forEach(([name, value]) => row.setAttribute(name, value));
    const marks = {
      chosen: number === this.chosen, hit: this.isHit.has(number), races: this.racesOf.has(number),
      first: !(this.rows[at - 1] >= 0), last: !(this.rows[at + 1] >= 0),
    };
    Object.entries(marks).forEach(([name, on]) => row.classList.toggle(name, on));
    const count = make('div', 'number', this.numberOf(number));
    count.style.width = `${this.number - 8}px`;
    row.append(count, ...this.operation(lane, words, where));
    return row;
  }

  /** An event as a screen reader says it: all that others see beside it. */
  ariaLabel(number, words, where, held) {
    const [lane] = this.trace.events[number];
    const incoming = this.trace.switches[number];
    const races = this.racesOf.get(number) || [];
    return [
      `${this.named(number)}: thread ${this.trace.lanes[lane].title} ${words} ${where}`.trim(),
      incoming && `after a switch from ${this.trace.lanes[incoming[0]].title}: ${this.trace.texts[incoming[2]]}`,
      held.length && `holds ${held.join(', ')}`, races.length && `races with ${races.map((other) => this.named(other)).join(', ')}`,
    ].filter(Boolean).join(', ');
  }

  switchRow(number) {
    const [from, preempts, why] = this.trace.switches[number];
    const to = this.trace.events[number][0];
    const row = make('div', 'row switch');
    row.setAttribute('aria-hidden', 'true');
    const arrow = make('div', `arrow ${to > from ? 'right' : 'left'}${preempts ? ' preempts' : ''}`);
    const [left, right] = [Math.min(from, to), Math.max(from, to)].map((lane) => this.x(lane) + RAIL - 4);
    const reason = make('span', 'cut', this.trace.texts[why]);
    reason.style.width = `${(to > from ? this.width - left : right) - 2 * END}px`;
    arrow.append(reason);
    arrow.style.cssText = `left:${left}px;width:${right - left}px`;
    row.append(arrow);
    return row;
  }

  /** How it ended, in the lane of who failed. */
  endRow({ lane, words, where }) {
    const row = make('div', 'row end');
    row.append(...this.operation(lane, `✗ ${words}`, where || ''));
    return row;
  }

  /** Arrows from the earlier to the later of two accesses that race. */
  flows(first, last) {
    const svg = vector('svg', { class: 'flows', 'aria-hidden': 'true' });
    this.trace.races.forEach(([a, b]) => {
      if (this.rowOf[b] < first || this.rowOf[a] > last) return;
      const [from, to] = [a, b].map((number) => this.trace.events[number][0]);
      // The arrow starts at the side that faces the other thread.
      const side = (lane, right) => this.x(lane) + (right ? this.lane - ROOM : RAIL);
      const x1 = side(from, to > from), x2 = side(to, to < from);
      const [y1, y2] = [a, b].map((number) => (this.rowOf[number] + 0.5) * ROW);
      const direction = to > from ? 1 : -1, bend = 26;
      svg.append(
        vector('path', { d: `M${x1},${y1} C${x1 + direction * bend},${y1} ${x2 - direction * bend},${y2} ${x2 - direction * 5},${y2}` }),
        vector('polygon', { points: `${x2},${y2} ${x2 - direction * 8},${y2 - 4} ${x2 - direction * 8},${y2 + 4}` }),
      );
    });
    return svg;
  }

  /** The whole run at a glance, if it does not fit: who ran when, and where the hits are. */
  drawOverview() {
    const { overview, scroll, trace } = this;
    overview.hidden = this.space.clientHeight < scroll.clientHeight * 1.5;
    if (overview.hidden) return;
    const width = overview.width = 14, height = overview.height = scroll.clientHeight;
    const pen = overview.getContext('2d');
    const y = (number) => Math.floor(this.rowOf[number] / this.rows.length * height);
    const part = width / trace.lanes.length;
    const drawn = new Set();
    const ink = (name) => {
      overview.style.color = `var(${name})`;
      pen.fillStyle = getComputedStyle(overview).color;
    };
    ink('--rail');
    trace.events.forEach(([lane], number) => {
      const key = y(number) * trace.lanes.length + lane;
      if (drawn.has(key)) return;
      drawn.add(key);
      pen.fillRect(lane * part, y(number), Math.max(1, part - 1), 1);
    });
    const mark = (colour, numbers) => {
      ink(colour);
      numbers.forEach((number) => pen.fillRect(0, y(number), width, 2));
    };
    mark('--bad', this.hits.slice(0, 2000));
    mark('--race', this.racesOf.keys());
  }

  choose(number, center) {
    current = this;
    this.chosen = clamp(number, 0, this.trace.events.length - 1);
    const top = this.rowOf[this.chosen] * ROW, { scrollTop } = this.scroll;
    const room = this.scroll.clientHeight - 60;
    if (center ? top < scrollTop || top > scrollTop + room : top < scrollTop + ROW || top > scrollTop + room - ROW) {
      this.scroll.scrollTop = Math.max(0, top - room / 2);
    }
    this.draw();
    this.scroll.setAttribute('aria-activedescendant', `run${this.index}-${this.chosen}`);
    details();
  }

  /** The next event of a kind, or the previous one. */
  jump(step, wanted) {
    for (let at = this.chosen + step; at >= 0 && at < this.trace.events.length; at += step) {
      if (wanted(at)) return this.choose(at, true);
    }
  }

  nextSwitch(step) { this.jump(step, (at) => this.trace.switches[at]); }

  nextRace() {
    const racing = [...this.racesOf.keys()].sort((a, b) => a - b);
    if (racing.length) this.choose(racing.find((at) => at > this.chosen) ?? racing[0], true);
  }

  search(text) {
    const { lanes, texts, events } = this.trace;
    const wheres = new Map();
    const tests = text.split(/\s+/).filter(Boolean).map((word) => {
      const inText = texts.map((text) => text.toLowerCase().includes(word));
      const inLane = lanes.map((lane) => `${lane.title} ${lane.function || ''}`.toLowerCase().includes(word));
      return ([lane, text], where) => inText[text] || inLane[lane] || where.includes(word);
    });
    this.hits = [];
    events.forEach((event, number) => {
      const key = event[2] * 0x200000 + event[3];
      if (!wheres.has(key)) wheres.set(key, this.whereOf(number).toLowerCase());
      if (tests.length && tests.every((test) => test(event, wheres.get(key)))) this.hits.push(number);
    });
    this.isHit = new Set(this.hits);
    this.draw();
    this.drawOverview();
  }

  nextHit(step) {
    const { hits, chosen } = this;
    if (!hits.length) return;
    const next = step > 0 ? hits.find((hit) => hit > chosen) : hits.findLast((hit) => hit < chosen);
    this.choose(next ?? (step > 0 ? hits[0] : hits[hits.length - 1]), true);
  }

  /** The next operation of a thread after an event. */
  nextOf(lane, number) {
    const events = this.eventsOf[lane];
    let low = 0, high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle] > number) high = middle; else low = middle + 1;
    }
    return events[low];
  }
}

/** The details of the chosen event, and its source. */
function details() {
  const { trace, chosen } = current;
  const detail = byId('detail');
  detail.replaceChildren();
  if (!trace.events.length) return;
  const [lane, , file, line] = trace.events[chosen];
  const { title, function: named } = trace.lanes[lane];
  const say = (className, text) => detail.append(make('p', className, text));
  detail.append(make('h2', '', `${current.named(chosen)}: thread ${title}${named ? ` (${named})` : ''}`));
  say('', current.words(chosen));
  const incoming = trace.switches[chosen];
  if (incoming) {
    const [from, preempts, why, counterfactual] = incoming;
    say(preempts ? 'preempts' : '', `switch from ${trace.lanes[from].title}: ${trace.texts[why]}`);
    if (counterfactual) say('preempts', `without this preemption, ${counterfactual}`);
  }
  const held = current.heldAt(lane, chosen);
  if (held.length) say('', `holds ${held.map((hold) => hold.lock).join(', ')}`);
  (current.racesOf.get(chosen) || []).forEach((other) => {
    const line = make('p', 'race');
    line.append(eventLink(other, `races with ${current.named(other)}: ${trace.lanes[trace.events[other][0]].title} ${current.words(other)}`));
    detail.append(line);
  });
  const others = standing(lane);
  source(file, line, others);
  showOthers(others);
}

/** A button that goes to an event of the current run. */
function eventLink(number, text) {
  const button = make('button', '', text), run = current;
  button.type = 'button';
  button.addEventListener('click', () => run.choose(number, true));
  return button;
}

/** What the other threads that live are about to do. */
function standing(lane) {
  const { trace, chosen } = current;
  return trace.lanes.flatMap((other, at) => {
    if (at === lane || other.from > chosen || other.to < chosen) return [];
    const next = current.nextOf(at, chosen);
    const end = trace.ends.find((end) => end.lane === at);
    if (next === undefined && !end) return [];
    const words = next === undefined ? end.words : current.words(next);
    const [file, line] = next === undefined ? [end.file, end.line] : trace.events[next].slice(2);
    return [{ title: other.title, next, words, file, line }];
  }).slice(0, 32);
}

function showOthers(others) {
  const pane = byId('others');
  pane.replaceChildren();
  if (!others.length) return;
  pane.append(make('h2', '', 'Next operation of the other threads'));
  others.forEach(({ title, next, words, file, line }) => {
    const place = file === null ? '' : `${base(data.files[file].path)}:${line}`;
    const text = file === null ? '' : data.files[file].lines[line - 1] || '';
    const entry = next === undefined ? make('p', '', `${title}: ${words}`) : eventLink(next, `${title}: ${words}`);
    entry.append(make('br'), make('code', '', `${place}  ${text.trim()}`));
    pane.append(entry);
  });
}

function source(file, line, others) {
  const pane = byId('source');
  pane.replaceChildren();
  if (file === null) return;
  const { path, lines } = data.files[file];
  pane.append(make('h2', '', `${base(path)}:${line}`));
  if (!lines.length) { pane.append(make('p', '', `${path} cannot be read here`)); return; }
  const code = make('div', 'lines');
  code.tabIndex = 0;
  code.setAttribute('role', 'region');
  code.setAttribute('aria-label', `${base(path)}, line ${line}: ${(lines[line - 1] || '').trim()}`);
  const from = Math.max(1, line - 200), to = Math.min(lines.length, line + 200);
  for (let at = from; at <= to; at++) {
    const row = make('div', at === line ? 'here' : '');
    row.append(make('i', '', at), make('span', '', lines[at - 1]));
    const there = others.filter((other) => other.file === file && other.line === at).map((other) => other.title);
    if (there.length) row.append(make('b', '', `◀ ${there.join(', ')}`));
    code.append(row);
  }
  pane.append(code);
  const here = code.querySelector('.here');
  if (here) code.scrollTop = here.offsetTop - code.offsetTop - code.clientHeight / 2;
}

/** Why it failed, each stop leading to where it is. */
function showWhy() {
  if (!data.why.length) return;
  const list = byId('why').querySelector('ul');
  data.why.forEach(({ kind, text, event }) => {
    const item = make('li', kind);
    const at = event === null ? -1 : runs[0].trace.numbers.indexOf(event);
    item.append(at < 0 ? text : eventLink(at, text));
    list.append(item);
  });
  byId('why').hidden = false;
}

byId('headline').textContent = data.outcome.split('\n')[0];
byId('headline').classList.toggle('fine', !data.failed);
byId('command').textContent = data.command;
byId('outcome').textContent = data.outcome;
let current = null;
const runs = data.traces.map((trace, index) => new Run(trace, index));
runs.forEach((run) => run.measure());
current = runs[0];
showWhy();

const search = byId('search');
search.addEventListener('input', () => {
  const words = search.value.trim().toLowerCase();
  runs.forEach((run) => run.search(words));
  byId('found').textContent = words ? `${current.hits.length} found` : '';
});
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') current.nextHit(event.shiftKey ? -1 : 1);
  if (event.key === 'Escape') { search.value = ''; search.dispatchEvent(new Event('input')); current.scroll.focus(); }
});
byId('next').addEventListener('click', () => current.nextSwitch(1));
byId('previous').addEventListener('click', () => current.nextSwitch(-1));
const root = document.documentElement, wantsDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : wantsDark.matches);
const nameTheme = () => { byId('theme').textContent = isDark() ? 'light mode' : 'dark mode'; runs.forEach((run) => run.drawOverview()); };
const theme = () => { root.dataset.theme = isDark() ? 'light' : 'dark'; nameTheme(); };
byId('theme').addEventListener('click', theme);
wantsDark.addEventListener('change', nameTheme);
const help = () => {
  const keys = byId('keys');
  keys.hidden = !keys.hidden;
  byId('help').setAttribute('aria-expanded', String(!keys.hidden));
};
byId('help').addEventListener('click', help);
const otherRun = () => { current = runs[(current.index + 1) % runs.length]; current.scroll.focus(); details(); };
document.addEventListener('keydown', (event) => {
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    ArrowDown: () => current.choose(current.chosen + 1), j: () => current.choose(current.chosen + 1),
    ArrowUp: () => current.choose(current.chosen - 1), k: () => current.choose(current.chosen - 1),
    PageDown: () => current.choose(current.chosen + 20), PageUp: () => current.choose(current.chosen - 20),
    Home: () => current.choose(0), End: () => current.choose(current.trace.events.length - 1),
    n: () => current.nextSwitch(1), p: () => current.nextSwitch(-1), r: () => current.nextRace(), o: otherRun,
    '/': () => search.focus(), t: theme, '?': help,
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
// Start at the failure.
runs.forEach((run) => run.choose(run.trace.events.length - 1));
const preempts = (number) => runs[0].trace.switches[number][1];
const chosen = Object.keys(runs[0].trace.switches).map(Number).find(preempts);
runs[0].choose(chosen ?? runs[0].trace.events.length - 1, true);
nameTheme();
