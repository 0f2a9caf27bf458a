// SPDX-License-Identifier: MIT
// The template of the trace page (pages/trace_page.hpp): its body, style and script. "@{name}" is a placeholder for a value. Marks in the
// cells repeat what the colours say, for colour-blind readers.
#pragma once

#include <string_view>

namespace lazyprune {
namespace program {

inline constexpr std::string_view trace_page_body = R"html(<header>
<h1>@{title}</h1>
<dl class="facts">
@{facts}</dl>
<div class="summary">
<figure class="share">
<figcaption>Share of the prompt computed, by layer</figcaption>
<div class="bars" role="img" aria-label="@{share_label}">
@{share_bars}</div>
<p class="axis"><span>layer 0</span><span><i class="computed"></i>prefill <i class="revived"></i>later</span><span>@{last_layer}</span></p>
</figure>
@{answer}</div>
</header>
<noscript>
<p>The picture of tokens and layers needs JavaScript. This table has its numbers.</p>
<table>
<thead><tr><th>step</th><th>new tokens</th><th>rows computed</th><th>revived</th><th>active tokens, by layer</th><th>next</th></tr></thead>
<tbody>
@{table}</tbody>
</table>
</noscript>
<main id="main" hidden>
<section class="controls" aria-label="Steps">
<button id="play" type="button" aria-pressed="false" title="Play or stop (space)">&#9654; Play</button>
<button id="back" type="button" title="One step back (left key)" aria-label="One step back">&#9664;</button>
<input id="slider" type="range" min="0" value="0" step="1" aria-label="Step">
<button id="forth" type="button" title="One step on (right key)" aria-label="One step on">&#9654;</button>
<strong id="number"></strong>
</section>
<p id="said" aria-live="polite"></p>
<ul id="legend" aria-label="Colours, and how many (token, layer) pairs of this step have them"></ul>
<h2>All tokens <small>layers down, tokens across<span id="stacked" hidden>, tokens narrower than a pixel stacked by colour</span>;
point at a token to see it in the close-up, click to hold the close-up there</small></h2>
<canvas id="overview" tabindex="0" role="img"></canvas>
<h2>Close up
<span class="zoom"><button id="narrower" type="button" aria-label="Narrower cells">&minus;</button>
<button id="wider" type="button" aria-label="Wider cells">+</button></span></h2>
<canvas id="closeup" tabindex="0" role="img"></canvas>
<p id="readout" aria-live="polite"></p>
<section id="reading">
<h2>As text <small>a deeper blue means that more layers use the token in this step</small></h2>
<p id="text" dir="auto"></p>
</section>
<p class="help">Keys: <kbd>&larr;</kbd> <kbd>&rarr;</kbd> step, <kbd>space</kbd> play; in a picture <kbd>shift</kbd> with <kbd>&larr;</kbd>
<kbd>&rarr;</kbd> token, <kbd>&uarr;</kbd> <kbd>&darr;</kbd> layer, <kbd>+</kbd> <kbd>&minus;</kbd> width.</p>
</main>
<div id="tip" hidden></div>
<script type="application/json" id="trace">@{data}</script>
<script>@{script}</script>
)html";

inline constexpr std::string_view trace_page_style = R"css(
.summary { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.share { flex: 0 1 21rem; margin: 0; }
figcaption, .answer h2 { margin: 0 0 .3rem; font-size: .85rem; font-weight: 600; color: var(--quiet); }
.bars { display: flex; gap: 1px; height: 72px; border-bottom: 1px solid var(--ink); }
.bars span { flex: 1 1 0; min-width: 2px; display: flex; flex-direction: column-reverse; background: #eef0f1; }
.bars b { display: block; background: var(--computed); }
.bars b + b { background: var(--revived); }
.axis { display: flex; justify-content: space-between; gap: 1rem; margin: .15rem 0 0; font-size: .78rem; color: var(--quiet); }
.axis i { display: inline-block; width: .7em; height: .7em; margin: 0 .25em 0 .4em; }
i.computed { background: var(--computed); }
i.revived { background: var(--revived); }
.answer { flex: 1 1 24rem; }
.answer blockquote { margin: 0; padding: .5rem .9rem; max-height: 7.5rem; overflow: auto; border-left: 4px solid var(--computed);
                     background: #f6f8f9; white-space: pre-wrap; overflow-wrap: anywhere; }
.controls { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem; margin-top: 1.2rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.controls input { flex: 1 1 10rem; accent-color: var(--computed); }
#number { min-width: 12rem; text-align: right; font-variant-numeric: tabular-nums; }
button { padding: .25rem .65rem; border: 1px solid #8d979e; border-radius: 5px; background: #fff; color: var(--ink); font: inherit; cursor: pointer; }
button:hover { background: #eef3f6; }
:focus-visible { outline: 3px solid #e69f00; outline-offset: 2px; }
#play { min-width: 6rem; }
#said { min-height: 1.45em; margin: .5rem 0; font-variant-numeric: tabular-nums; }
q { padding: 0 .25em; border-radius: 3px; background: #eef0f1; font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
    font-size: .93em; quotes: none; white-space: pre-wrap; overflow-wrap: anywhere; }
#legend { display: flex; flex-wrap: wrap; gap: .25rem 1.2rem; margin: .5rem 0; padding: 0; list-style: none; font-size: .86rem; }
#legend li { display: flex; align-items: center; font-variant-numeric: tabular-nums; }
#legend i { display: inline-flex; width: 1.3em; height: 1.3em; margin-right: .45em; border: 1px solid #8d979e; align-items: center;
            justify-content: center; font: .8em sans-serif; }
#legend span { margin-left: .35em; color: var(--quiet); }
canvas { display: block; width: 100%; cursor: crosshair; touch-action: pan-y; }
.zoom button { padding: 0 .55rem; }
#readout { min-height: 3em; margin: .2rem 0 0; }
#text { max-height: 22rem; overflow: auto; margin: 0; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 6px;
        white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.75; }
#text span { padding: .08em 0; border-bottom: 3px solid transparent; }
#text .unread { color: #6d777e; }
#text .now { border-color: var(--computed); }
#text .back { border-color: var(--revived); }
#text .at { outline: 2px solid var(--ink); }
#tip { position: fixed; z-index: 1; max-width: 24rem; padding: .4rem .65rem; border: 1px solid #8d979e; border-radius: 6px; background: #fff;
       box-shadow: 0 2px 9px #0003; font-size: .88rem; pointer-events: none; }
.help { margin: 1.2rem 0 0; font-size: .83rem; color: var(--quiet); }
kbd { padding: 0 .3em; border: 1px solid var(--line); border-radius: 3px; font: inherit; }
td:nth-child(2) { overflow-wrap: anywhere; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  button, input, .help, #tip, #readout, h2 small { display: none !important; }
  #text, .answer blockquote { max-height: none; }
  canvas { height: auto !important; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

inline constexpr std::string_view trace_page_script = R"js(
'use strict';
const byId = id => document.getElementById(id);
const data = JSON.parse(byId('trace').textContent);
const {layers, steps, texts} = data;

// Replay. A cell is a (layer, token) pair, in one array: layer * total + token.
const known = [0];  // tokens known before step s
for (const step of steps) known.push(known[known.length - 1] + step.tokens.length);
const total = known[steps.length];
const ids = steps.flatMap(step => step.tokens);
const computedAt = new Int32Array(layers * total).fill(-1);  // the step that computed a cell
const fromStore = new Uint8Array(layers * total);
const again = steps.map(() => []);  // cells computed a second time: an error of the engine that wrote the trace

function eachPosition(ranges, visit) {  // "0-45,47"
  for (const range of ranges ? ranges.split(',') : []) {
    const [first, last = first] = range.split('-').map(Number);
    for (let t = first; t <= last; ++t) visit(t);
  }
}

steps.forEach((step, s) => {
  for (let l = 0; l < layers; ++l) {
    eachPosition(step.rows[l], t => {
      const cell = l * total + t;
      if (computedAt[cell] < 0) computedAt[cell] = s; else again[s].push(cell);
    });
    eachPosition(step.revived[l], t => { fromStore[l * total + t] = 1; });
  }
});

// The kinds of a cell in a step. If tokens are narrower than a pixel, kinds are stacked in this order, from the bottom up.
const kinds = [
  {colour: '#0072b2', mark: '', label: 'computed in this step'},
  {colour: '#d55e00', mark: '\u2191', label: 'revived from the store and computed'},
  {colour: '#56b4e9', mark: '\u00b7', label: 'in the cache, attended to'},
  {colour: '#b9c3c9', mark: '', label: 'in the cache, not attended to at this layer'},
  {colour: '#f0e27a', mark: data.lost ? '\u00d7' : '\u2193', label: data.lost ? 'pruned here and lost' : 'pruned here, its hidden state stored'},
  {colour: '#eef0f1', mark: '', label: 'never computed so far'},
  {colour: '#cc79a7', mark: '!', label: 'faulty: used without keys and values, or computed twice'},
];
const COMPUTED = 0, REVIVED = 1, ATTENDED = 2, IDLE = 3, STORED = 4, NEVER = 5, FAULTY = 6, ABSENT = 7;

/// Returns the kind of every cell in step s; `depth` counts the layers at which a token is active.
function replay(s) {
  const kind = new Uint8Array(layers * total).fill(ABSENT);
  const depth = new Uint16Array(total);
  const counts = Array.from({length: layers}, () => new Array(kinds.length).fill(0));
  const active = new Uint8Array(total).fill(1, 0, known[s + 1]);
  const complete = new Uint8Array(total).fill(1);  // all lower layers are computed
  for (let l = 0; l < layers; ++l) {
    eachPosition(steps[s].changes[l], t => { active[t] ^= 1; });
    for (let t = 0; t < known[s + 1]; ++t) {
      const cell = l * total + t, when = computedAt[cell];
      let k;
      if (when === s) k = fromStore[cell] ? REVIVED : COMPUTED;
      else if (when >= 0 && when < s) k = active[t] ? ATTENDED : IDLE;
      else if (active[t]) k = FAULTY;
      else k = complete[t] ? STORED : NEVER;
      if (when < 0 || when > s) complete[t] = 0;
      depth[t] += active[t];
      kind[cell] = k;
      ++counts[l][k];
    }
  }
  for (const cell of again[s]) {
    --counts[Math.floor(cell / total)][kind[cell]];
    ++counts[Math.floor(cell / total)][FAULTY];
    kind[cell] = FAULTY;
  }
  return {kind, depth, counts};
}

// Words.
const escaped = text => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));  // control characters, and those that change the text direction
const visible = text => escaped(text).replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5').replace(/^ +| +$/g, m => '\u2423'.repeat(m.length));
const textOf = t => t < texts.length ? visible(texts[t]) : 'id ' + ids[t];
const number = n => n.toLocaleString('en');
const plural = (n, word) => number(n) + ' ' + word + (n === 1 ? '' : 's');
const quoted = text => Object.assign(document.createElement('q'), {textContent: text});

function fate(s, l, t) {
  const cell = l * total + t, kind = now.kind[cell], when = computedAt[cell];
  const later = when > s ? ' Step ' + when + ' computes it.' : '';
  switch (kind) {
    case COMPUTED: return 'computed in this step';
    case REVIVED: return 'revived: read from the store and computed in this step';
    case ATTENDED: return 'in the cache since step ' + when + ', attended to';
    case IDLE: return 'in the cache since step ' + when + ', not attended to at this layer';
    case STORED: return (l === 0 ? 'pruned before layer 0' : data.lost ? 'pruned here and lost' : 'pruned here, its hidden state stored') + '.' + later;
    case NEVER: return 'never computed so far.' + later;
    case FAULTY: return computedAt[cell] >= 0 && when < s ? 'computed a second time: a fault' : 'active without keys and values: a fault';
  }
  return 'not there yet';
}

// The pictures.
const overview = {canvas: byId('overview'), left: 46, top: 20};
const closeup = {canvas: byId('closeup'), left: 46, right: 12, top: 20, below: 118};
const at = {step: 0, token: 0, layer: 0};               // the chosen cell
const close = {centre: 0, held: false, cellWidth: 24};  // the range of the close-up
const grid = document.createElement('canvas');          // the overview without its marks
let now;

function prepare(view, canvas, height) {
  const scale = window.devicePixelRatio || 1;
  view.canvas.style.height = height + 'px';
  canvas.width = Math.round(view.canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  view.height = height;
  view.scale = scale;
  const draw = canvas.getContext('2d');
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.font = '11px system-ui, sans-serif';
  draw.textBaseline = 'middle';
  return draw;
}

function labelLayers(draw, view) {
  const every = Math.ceil(12 / view.cell);
  draw.fillStyle = '#56616a';
  draw.textAlign = 'right';
  for (let l = 0; l < layers; l += every) draw.fillText(l, view.left - 7, view.top + (l + .5) * view.cell);
  draw.textAlign = 'left';
  draw.fillText('layer', 0, view.top / 2);
}

function labelPositions(draw, view, first, count, width) {
  const unit = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000].find(u => u * width / count > 52) || 1e6;
  draw.fillStyle = '#56616a';
  draw.textAlign = 'center';
  for (let t = Math.ceil(first / unit) * unit; t < first + count; t += unit) {
    const x = view.left + (t - first + .5) * width / count;
    draw.fillText(t, x, view.top / 2 - 2);
    draw.fillRect(x, view.top - 4, 1, 3);
  }
}

function drawGrid() {
  const view = overview;
  view.cell = Math.min(30, Math.max(4, Math.round(400 / layers)));
  const draw = prepare(view, grid, view.top + layers * view.cell + 16);
  const wide = view.canvas.clientWidth < 760 ? 0 : 130;  // width of the bars at the right
  view.width = Math.max(60, Math.min(view.canvas.clientWidth - view.left - wide - 120, total * 28));
  const columns = Math.max(1, Math.floor(view.width * view.scale)), high = Math.max(1, Math.round(view.cell * view.scale));
  const gap = view.cell >= 8 ? 1 : 0;  // pixels between layers
  byId('stacked').hidden = total <= columns;
  const image = draw.createImageData(columns, layers * high);
  const pixels = new Uint32Array(image.data.buffer);
  const rgba = kinds.map(k => (0xff << 24 | parseInt(k.colour.slice(5, 7), 16) << 16 | parseInt(k.colour.slice(3, 5), 16) << 8 |
                               parseInt(k.colour.slice(1, 3), 16)) >>> 0).concat(0xffffffff);
  const share = new Uint32Array(kinds.length + 1);
  for (let l = 0; l < layers; ++l) {
    for (let x = 0; x < columns; ++x) {
      const first = Math.floor(x * total / columns), last = Math.max(first + 1, Math.floor((x + 1) * total / columns));
      share.fill(0);
      for (let t = first; t < last; ++t) ++share[now.kind[l * total + t]];
      let y = high - gap, seen = 0;
      for (let k = 0; k < share.length; ++k) {
        seen += share[k];
        const end = Math.round((high - gap) * (1 - seen / (last - first)));
        while (y > end) pixels[(l * high + --y) * columns + x] = rgba[k];
      }
      for (let g = high - gap; g < high; ++g) pixels[(l * high + g) * columns + x] = 0xffffffff;
    }
  }
  draw.putImageData(image, Math.round(view.left * view.scale), Math.round(view.top * view.scale));
  labelLayers(draw, view);
  labelPositions(draw, view, 0, total, view.width);

  // One bar per layer: its cells by kind.
  const left = view.left + view.width + 16, all = known[at.step + 1], every = Math.ceil(12 / view.cell);
  draw.fillStyle = '#56616a';
  draw.textAlign = 'left';
  if (wide) draw.fillText('all known tokens', left, view.top / 2 - 2);
  draw.fillText('active', left + wide + 8, view.top / 2 - 2);
  now.counts.forEach((counts, l) => {
    let x = left;
    counts.forEach((n, k) => {
      draw.fillStyle = kinds[k].colour;
      draw.fillRect(x, view.top + l * view.cell, n / all * wide, view.cell - gap);
      x += n / all * wide;
    });
    if (l % every) return;
    const active = counts[COMPUTED] + counts[REVIVED] + counts[ATTENDED] + counts[FAULTY];
    draw.fillStyle = '#1b2126';
    draw.fillText(number(active) + ' (' + (100 * active / all).toFixed(active < all ? 1 : 0) + ' %)', left + wide + 8, view.top + (l + .5) * view.cell);
  });

  // Where the prompt ends.
  const end = view.left + known[1] * view.width / total, bottom = view.top + layers * view.cell;
  draw.fillStyle = '#1b2126';
  draw.fillRect(end - .5, view.top - 3, 1, bottom - view.top + 6);
  draw.textAlign = 'right';
  draw.fillText('prompt', end - 4, bottom + 8);
  draw.textAlign = 'left';
  if (known[1] < total) draw.fillText('generated', end + 4, bottom + 8);
}

function drawOverview() {
  const view = overview, draw = prepare(view, view.canvas, view.height), {first, count} = closeRange();
  draw.drawImage(grid, 0, 0, grid.width / view.scale, grid.height / view.scale);
  draw.strokeStyle = '#1b2126';
  draw.lineWidth = close.held ? 2.5 : 1.5;
  draw.strokeRect(view.left + first * view.width / total, view.top - 1, Math.max(3, count * view.width / total), layers * view.cell + 1);
}

function closeRange() {
  const count = Math.max(1, Math.min(total, Math.floor((closeup.canvas.clientWidth - closeup.left - closeup.right) / close.cellWidth)));
  return {first: Math.max(0, Math.min(total - count, close.centre - (count >> 1))), count};
}

function drawCloseup() {
  const view = closeup;
  view.cell = Math.min(22, Math.max(7, Math.round(420 / layers)));
  const draw = prepare(view, view.canvas, view.top + layers * view.cell + view.below);
  const {first, count} = closeRange(), wide = close.cellWidth, bottom = view.top + layers * view.cell;
  view.width = count * wide;
  labelLayers(draw, view);
  labelPositions(draw, view, first, count, view.width);
  draw.textAlign = 'center';
  for (let i = 0; i < count; ++i) {
    for (let l = 0; l < layers; ++l) {
      const kind = now.kind[l * total + first + i];
      if (kind === ABSENT) continue;
      const x = view.left + i * wide, y = view.top + l * view.cell;
      draw.fillStyle = kinds[kind].colour;
      draw.fillRect(x, y, wide - 1, view.cell - 1);
      if (view.cell < 10 || wide < 10 || !kinds[kind].mark) continue;
      draw.fillStyle = kind === REVIVED ? '#fff' : '#1b2126';
      draw.fillText(kinds[kind].mark, x + wide / 2 - .5, y + view.cell / 2);
    }
  }
  draw.save();
  draw.font = '13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  draw.textAlign = 'right';
  for (let i = 0; i < count; ++i) {
    const t = first + i;
    if (wide < 12 && t !== at.token) continue;
    draw.save();
    draw.translate(view.left + (i + .5) * wide + 2, bottom + 7);
    draw.rotate(-Math.PI / 3);
    draw.fillStyle = t < known[at.step + 1] ? t >= known[at.step] ? '#0072b2' : '#1b2126' : '#a3acb2';
    const text = textOf(t), characters = Array.from(text);
    draw.fillText(characters.length > 14 ? characters.slice(0, 13).join('') + '\u2026' : text, 0, 0);
    draw.restore();
  }
  draw.restore();
  draw.strokeStyle = '#1b2126';
  draw.lineWidth = 1.5;
  const x = view.left + (at.token - first) * wide - .5;
  draw.strokeRect(x, view.top - 1, wide, bottom - view.top + 1);
  draw.lineWidth = 3;
  draw.strokeRect(x, view.top + at.layer * view.cell - .5, wide, view.cell);
  if (known[1] > first && known[1] < first + count) {
    draw.fillStyle = '#1b2126';
    draw.fillRect(view.left + (known[1] - first) * wide - 1.5, view.top - 6, 2, bottom - view.top + 12);
  }
}

// The texts around the pictures.
function describe(element) {
  const {step, layer, token} = at, there = token < known[step + 1];
  element.replaceChildren(quoted(textOf(token)), ` position ${number(token)}, id ${ids[token]}` +
    (token < known[1] ? ', prompt' : ', generated'), document.createElement('br'),
    (there ? `layer ${layer}: ` : '') + fate(step, layer, token));
}

function drawLegend() {
  byId('legend').replaceChildren(...kinds.flatMap((kind, k) => {
    const n = now.counts.reduce((sum, counts) => sum + counts[k], 0);
    if (k === FAULTY && n === 0) return [];
    const item = document.createElement('li'), box = document.createElement('i'), count = document.createElement('span');
    box.style.background = kind.colour;
    box.style.color = k === REVIVED ? '#fff' : '#1b2126';
    box.textContent = kind.mark;
    count.textContent = number(n);
    item.append(box, kind.label, count);
    return [item];
  }));
}

function drawStep() {
  const s = at.step, step = steps[s], fresh = step.tokens.length;
  const sum = k => now.counts.reduce((n, counts) => n + counts[k], 0);
  const rows = sum(COMPUTED) + sum(REVIVED);
  byId('slider').value = s;
  byId('slider').setAttribute('aria-valuetext', 'step ' + s);
  byId('number').textContent = `step ${s} of ${steps.length - 1}, ` + (s === 0 ? 'prefill' : fresh > 1 ? 'next turn' : 'decode');
  const reads = fresh === 1 ? [quoted(textOf(known[s])), ` (position ${number(known[s])})`] : [plural(fresh, 'new token')];
  byId('said').replaceChildren('Reads ', ...reads, ', says ', quoted(visible(data.next[s])), `. Computes ${plural(rows, 'row')}, ` +
    `${number(sum(REVIVED))} of them revived; the dense model computes ${number(fresh * layers)} here.`);
  overview.canvas.setAttribute('aria-label', `Step ${s}: active tokens by layer, of ${known[s + 1]}: ` +
    now.counts.map(c => c[COMPUTED] + c[REVIVED] + c[ATTENDED] + c[FAULTY]).join(', '));
  closeup.canvas.setAttribute('aria-label', 'Close-up of the tokens around the chosen one; described below');
}

const spans = [];
function makeText() {
  byId('reading').hidden = texts.length === 0;
  for (let t = 0; t < Math.min(total, texts.length); ++t) {
    const span = document.createElement('span');
    span.textContent = escaped(texts[t]).replace(/\n/g, '\u23ce\n');
    span.dataset.token = t;
    spans.push(span);
  }
  byId('text').replaceChildren(...spans);
}

function drawText() {
  const revived = new Uint8Array(total), computed = new Uint8Array(total);
  for (let l = 0; l < layers; ++l)
    for (let t = 0; t < known[at.step + 1]; ++t) {
      const kind = now.kind[l * total + t];
      if (kind === REVIVED) revived[t] = 1;
      else if (kind === COMPUTED) computed[t] = 1;
    }
  spans.forEach((span, t) => {
    const there = t < known[at.step + 1];
    const name = !there ? 'unread' : revived[t] ? 'back' : computed[t] ? 'now' : '';
    if (span.className !== name) span.className = name;
    const colour = there ? `rgb(86 180 233 / ${Math.round(85 * now.depth[t] / layers)}%)` : '';
    if (span.dataset.colour !== colour) span.style.background = span.dataset.colour = colour;
  });
  markText();
}

let marked;
function markText() {
  if (marked) marked.classList.remove('at');
  marked = spans[at.token];
  if (marked) marked.classList.add('at');
}

function drawPictures() { drawOverview(); drawCloseup(); describe(byId('readout')); markText(); }

function show(step) {
  at.step = Math.max(0, Math.min(steps.length - 1, step));
  now = replay(at.step);
  drawStep();
  drawLegend();
  drawText();
  drawAll();
  history.replaceState(null, '', '#step=' + at.step);
}

function drawAll() { drawGrid(); drawPictures(); }

let asked = false;
function pick(token, layer, follow) {  // follow: the close-up moves to the token
  token = Math.max(0, Math.min(total - 1, token));
  layer = Math.max(0, Math.min(layers - 1, layer));
  at.token = token;
  at.layer = layer;
  const {first, count} = closeRange();
  if (follow || token < first || token >= first + count) close.centre = token;
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; drawPictures(); });
}

// Pointer and keys.
function showTip(event) {
  const tip = byId('tip');
  describe(tip);
  tip.hidden = false;
  const {offsetWidth: w, offsetHeight: h} = tip;
  tip.style.left = Math.max(4, Math.min(innerWidth - w - 4, event.clientX + 16)) + 'px';
  tip.style.top = (event.clientY + h + 24 > innerHeight ? event.clientY - h - 12 : event.clientY + 18) + 'px';
}
const hideTip = () => { byId('tip').hidden = true; };

function cellAt(view, event, first, count) {
  const box = view.canvas.getBoundingClientRect();
  const t = Math.floor((event.clientX - box.left - view.left) * count / view.width), l = Math.floor((event.clientY - box.top - view.top) / view.cell);
  return t >= 0 && t < count && l >= -1 && l <= layers ? [first + t, Math.max(0, Math.min(layers - 1, l))] : null;
}

function point(view, event) {
  const {first, count} = view === overview ? {first: 0, count: total} : closeRange();
  const cell = cellAt(view, event, first, count);
  if (!cell || view === overview && close.held && event.type !== 'click') return hideTip();
  if (event.type === 'click') close.held = view === closeup || !close.held;
  pick(...cell, view === overview);
  showTip(event);
}
for (const view of [overview, closeup])
  for (const type of ['pointermove', 'click']) view.canvas.addEventListener(type, event => point(view, event));
for (const view of [overview, closeup]) view.canvas.addEventListener('pointerleave', hideTip);
byId('text').addEventListener('click', event => {
  if (event.target.dataset.token) { close.held = true; pick(Number(event.target.dataset.token), at.layer, true); }
});

let timer = null;
function play(on) {
  clearInterval(timer);
  timer = null;
  byId('play').textContent = on ? '\u25a0 Stop' : '\u25b6 Play';
  byId('play').setAttribute('aria-pressed', on);
  if (!on) return;
  if (at.step === steps.length - 1) show(0);
  timer = setInterval(() => at.step < steps.length - 1 ? show(at.step + 1) : play(false), 800);
}
function widen(factor) {
  close.cellWidth = Math.max(6, Math.min(64, Math.round(close.cellWidth * factor)));
  drawPictures();
}

byId('play').addEventListener('click', () => play(!timer));
byId('back').addEventListener('click', () => show(at.step - 1));
byId('forth').addEventListener('click', () => show(at.step + 1));
byId('narrower').addEventListener('click', () => widen(1 / 1.4));
byId('wider').addEventListener('click', () => widen(1.4));
byId('slider').addEventListener('input', event => show(Number(event.target.value)));
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const picture = event.target.tagName === 'CANVAS', button = event.target.tagName === 'BUTTON';
  const side = {ArrowLeft: -1, ArrowRight: 1}[event.key], up = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (side && event.shiftKey && picture) pick(at.token + side, at.layer, false);
  else if (side && !event.shiftKey) show(at.step + side);
  else if (up && picture) pick(at.token, at.layer + up, false);
  else if (event.key === ' ' && !button) play(!timer);
  else if ('+-'.includes(event.key) && picture) widen(event.key === '+' ? 1.4 : 1 / 1.4);
  else return;
  event.preventDefault();
});
window.addEventListener('resize', drawAll);
window.addEventListener('beforeprint', drawAll);

byId('main').hidden = false;
byId('slider').max = steps.length - 1;
close.centre = at.token = known[1] - 1;
makeText();
show(Number((location.hash.match(/^#step=(\d+)$/) || [0, 0])[1]));
)js";

}  // namespace program
}  // namespace lazyprune
