'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const ROW = 24;
const END = Infinity;
const LANE = data.traces.length > 1 ? 118 : 180, NUMBER = 46, WHERE = 150;
const COLOURS = ['#2f81f7', '#2da44e', '#d4a72c', '#e16f24', '#bf3989', '#1b9aaa', '#8250df', '#cf222e'];

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const byId = (id) => document.getElementById(id);
const base = (path) => path.split('/').pop();

/** One run: its rows, of which only those in sight are in the document. */
class Run {
  constructor(trace, index) {
    this.trace = trace;
    this.index = index;
    this.chosen = 0;
    this.hits = new Set();
    // An event each, and a row before it for a switch.
    this.rows = [];
    this.rowOf = [];
    trace.events.forEach((_, number) => {
      if (trace.switches[number]) this.rows.push(-number - 1);
      this.rowOf.push(this.rows.length);
      this.rows.push(number);
    });
    if (trace.end) this.rows.push(END);
    const locks = [...new Set(trace.holds.map((hold) => hold[1]))];
    this.colour = new Map(locks.map((lock, at) => [lock, COLOURS[at % COLOURS.length]]));
    this.holdsOf = trace.lanes.map(() => []);
    trace.holds.forEach((hold) => this.holdsOf[hold[0]].push(hold));
    this.racesOf = new Map();
    trace.races.forEach(([a, b]) => [[a, b], [b, a]].forEach(([one, other]) => {
      this.racesOf.set(one, [...(this.racesOf.get(one) || []), other]);
    }));
    this.width = `${NUMBER + trace.lanes.length * LANE + WHERE}px`;
    this.columns = `${NUMBER}px repeat(${trace.lanes.length}, minmax(${LANE}px, 1fr)) ${WHERE}px`;
    this.build();
  }

  build() {
    const section = make('section', 'run');
    const title = make('h2', '', this.trace.title + ' ');
    title.append(make('span', '', this.trace.stats));
    this.scroll = make('div', 'scroll');
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute('role', 'listbox');
    this.scroll.setAttribute('aria-label', `${this.trace.title}: ${this.trace.stats}`);
    const heads = make('div', 'heads');
    heads.style.gridTemplateColumns = this.columns;
    heads.style.minWidth = this.width;
    heads.append(make('div', '', ''));
    this.trace.lanes.forEach((lane) => {
      const head = make('div', '', lane.title);
      head.append(make('small', '', lane.function || '\u00a0'));
      heads.append(head);
    });
    heads.append(make('div', '', 'where'));
    this.space = make('div', 'space');
    this.space.style.height = `${this.rows.length * ROW}px`;
    this.flows = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.flows.setAttribute('class', 'flows');
    this.flows.setAttribute('aria-hidden', 'true');
    this.space.append(this.flows);
    this.scroll.append(heads, this.space);
    section.append(title, this.scroll);
    byId('runs').append(section);
    this.scroll.addEventListener('scroll', () => this.draw(), { passive: true });
    this.scroll.addEventListener('focus', () => { current = this; details(); });
    this.space.addEventListener('click', (event) => {
      const row = event.target.closest('.event');
      if (row) this.choose(Number(row.dataset.number));
    });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  heldAt(lane, number) {
    return this.holdsOf[lane].filter((hold) => hold[2] <= number && number <= hold[3]);
  }

  /** Puts the rows in sight into the document. */
  draw() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 20);
    const last = Math.min(this.rows.length, first + Math.ceil(this.scroll.clientHeight / ROW) + 60);
    this.space.replaceChildren(this.flows);
    for (let at = first; at < last; at++) {
      const row = this.row(this.rows[at]);
      row.style.top = `${at * ROW}px`;
      row.style.gridTemplateColumns = this.columns;
      row.style.minWidth = this.width;
      this.space.append(row);
    }
    this.drawFlows(first, last);
  }

  row(number) {
    if (number === END) return this.endRow();
    return number < 0 ? this.switchRow(-number - 1) : this.eventRow(number);
  }

  /** How it ended, in the lane of who failed. */
  endRow() {
    const row = make('div', 'row end');
    row.append(make('div', 'number', ''));
    const { lane, words, where } = this.trace.end;
    this.trace.lanes.forEach((_, at) => row.append(make('div', 'lane', at === lane ? `✗ ${words}` : '')));
    row.append(make('div', 'where', where || ''));
    return row;
  }

  eventRow(number) {
    const [lane, text, file, line] = this.trace.events[number];
    const row = make('div', 'row event');
    row.dataset.number = number;
    row.id = `run${this.index}-${number}`;
    row.setAttribute('role', 'option');
    row.setAttribute('aria-selected', String(number === this.chosen));
    const words = this.trace.texts[text];
    const where = file === null ? '' : `${base(data.files[file].path)}:${line}`;
    row.setAttribute('aria-label', `${number}: thread ${this.trace.lanes[lane].title} ${words} ${where}`);
    row.classList.toggle('chosen', number === this.chosen);
    row.classList.toggle('hit', this.hits.has(number));
    row.classList.toggle('races', this.racesOf.has(number));
    row.append(make('div', 'number', number));
    this.trace.lanes.forEach((other, at) => {
      const cell = make('div', 'lane', at === lane ? words : '');
      if (other.from <= number && number <= other.to) cell.classList.add('alive');
      if (at === lane) { cell.classList.add('does'); cell.title = words; }
      const held = this.heldAt(at, number);
      if (held.length) {
        cell.classList.add('holds');
        cell.style.setProperty('--lock', this.colour.get(held[0][1]));
        cell.title = `${cell.title} (${other.title} holds ${held.map((hold) => hold[1]).join(', ')})`;
      }
      row.append(cell);
    });
    row.append(make('div', 'where', where));
    return row;
  }

  switchRow(number) {
    const { from, preempts, why } = this.trace.switches[number];
    const to = this.trace.events[number][0];
    const row = make('div', 'row switch');
    row.setAttribute('aria-hidden', 'true');
    const arrow = make('div', `arrow ${to > from ? 'right' : 'left'}${preempts ? ' preempts' : ''}`, why);
    arrow.style.gridColumn = `${Math.min(from, to) + 2} / ${Math.max(from, to) + 2}`;
    arrow.style.marginLeft = '6px';
    arrow.style.width = 'calc(100% + 6px)';
    row.append(arrow);
    return row;
  }

  /** Arrows between accesses that race. */
  drawFlows(first, last) {
    this.flows.replaceChildren();
    this.flows.style.width = '1px';
    this.flows.style.height = '1px';
    const width = Math.max(LANE, (this.scroll.clientWidth - NUMBER - WHERE) / this.trace.lanes.length);
    const at = (number) => {
      const [lane] = this.trace.events[number];
      return [NUMBER + lane * width + 2, this.rowOf[number] * ROW + ROW / 2];
    };
    this.trace.races.forEach(([a, b]) => {
      if (this.rowOf[b] < first || this.rowOf[a] > last) return;
      const [x1, y1] = at(a), [x2, y2] = at(b);
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      const bend = Math.min(60, 14 + Math.abs(y2 - y1) / 4);
      path.setAttribute('d', `M${x1},${y1} C${x1 - bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`);
      this.flows.append(path);
    });
  }

  choose(number, center) {
    current = this;
    this.chosen = Math.max(0, Math.min(number, this.trace.events.length - 1));
    const top = this.rowOf[this.chosen] * ROW;
    const room = this.scroll.clientHeight - 60;
    if (center || top < this.scroll.scrollTop + ROW || top > this.scroll.scrollTop + room - ROW) {
      this.scroll.scrollTop = Math.max(0, top - room / 2);
    }
    this.draw();
    this.scroll.setAttribute('aria-activedescendant', `run${this.index}-${this.chosen}`);
    details();
  }

  /** The next event that a switch led to, or the previous one. */
  jump(step) {
    for (let at = this.chosen + step; at >= 0 && at < this.trace.events.length; at += step) {
      if (this.trace.switches[at]) return this.choose(at, true);
    }
  }

  search(words) {
    this.hits = new Set();
    if (words) {
      this.trace.events.forEach(([lane, text, file, line], number) => {
        const where = file === null ? '' : `${base(data.files[file].path)}:${line}`;
        const all = `${this.trace.lanes[lane].title} ${this.trace.texts[text]} ${where}`.toLowerCase();
        if (words.split(/\s+/).every((word) => all.includes(word))) this.hits.add(number);
      });
    }
    this.draw();
  }

  nextHit() {
    const hits = [...this.hits];
    if (hits.length) this.choose(hits.find((hit) => hit > this.chosen) ?? hits[0], true);
  }
}

/** What is to be said about the chosen event, and its source. */
function details() {
  const run = current;
  const number = run.chosen;
  const detail = byId('detail');
  detail.replaceChildren();
  if (!run.trace.events.length) return;
  const [lane, text, file, line] = run.trace.events[number];
  detail.append(make('h2', '', `${number}: ${run.trace.lanes[lane].title}`), make('p', '', run.trace.texts[text]));
  const led = run.trace.switches[number];
  if (led) {
    detail.append(make('p', led.preempts ? 'preempts' : '', `switch from ${run.trace.lanes[led.from].title}: ${led.why}`));
    if (led.need) detail.append(make('p', 'preempts', `without this, ${led.need}`));
  }
  const held = run.heldAt(lane, number);
  if (held.length) detail.append(make('p', '', `holds ${held.map((hold) => hold[1]).join(', ')}`));
  (run.racesOf.get(number) || []).forEach((other) => {
    const button = make('button', '', `races with ${other}: ${run.trace.texts[run.trace.events[other][1]]}`);
    button.type = 'button';
    button.addEventListener('click', () => run.choose(other, true));
    const line = make('p', 'race');
    line.append(button);
    detail.append(line);
  });
  source(file, line);
}

function source(file, line) {
  const pane = byId('source');
  pane.replaceChildren();
  if (file === null) return;
  const { path, lines } = data.files[file];
  pane.append(make('h2', '', `${base(path)}:${line}`));
  if (!lines.length) { pane.append(make('p', '', `${path} cannot be read here`)); return; }
  const code = make('div', 'code');
  const from = Math.max(1, line - 200), to = Math.min(lines.length, line + 200);
  for (let at = from; at <= to; at++) {
    const row = make('div', at === line ? 'here' : '');
    row.append(make('i', '', at), make('span', '', lines[at - 1]));
    code.append(row);
  }
  pane.append(code);
  const here = code.querySelector('.here');
  if (here) code.scrollTop = here.offsetTop - code.offsetTop - code.clientHeight / 2;
}

byId('headline').textContent = data.outcome.split('\n')[0];
byId('command').textContent = data.command;
byId('outcome').textContent = data.outcome;
let current = null;
const runs = data.traces.map((trace, index) => new Run(trace, index));
current = runs[0];

const search = byId('search');
search.addEventListener('input', () => {
  const words = search.value.trim().toLowerCase();
  runs.forEach((run) => run.search(words));
  byId('found').textContent = words ? `${current.hits.size} found` : '';
});
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') current.nextHit();
  if (event.key === 'Escape') { search.value = ''; search.dispatchEvent(new Event('input')); current.scroll.focus(); }
});
byId('next').addEventListener('click', () => current.jump(1));
byId('previous').addEventListener('click', () => current.jump(-1));
const theme = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
};
byId('theme').addEventListener('click', theme);
const help = () => {
  const keys = byId('keys');
  keys.hidden = !keys.hidden;
  byId('help').setAttribute('aria-expanded', String(!keys.hidden));
};
byId('help').addEventListener('click', help);
document.addEventListener('keydown', (event) => {
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    ArrowDown: () => current.choose(current.chosen + 1), j: () => current.choose(current.chosen + 1),
    ArrowUp: () => current.choose(current.chosen - 1), k: () => current.choose(current.chosen - 1),
    PageDown: () => current.choose(current.chosen + 20), PageUp: () => current.choose(current.chosen - 20),
    Home: () => current.choose(0), End: () => current.choose(current.trace.events.length - 1),
    n: () => current.jump(1), p: () => current.jump(-1), '/': () => search.focus(), t: theme, '?': help,
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
// Where it went wrong is where to begin to look.
runs.forEach((run) => { run.chosen = Math.max(0, run.trace.events.length - 1); });
const chosen = Object.keys(runs[0].trace.switches).map(Number).find((number) => runs[0].trace.switches[number].preempts);
runs[0].choose(chosen ?? runs[0].trace.events.length - 1, true);
runs.slice(1).forEach((run) => run.draw());
current = runs[0];
details();
