// SPDX-License-Identifier: MIT
// The template of the server's page (serve/chat_page.hpp): its body, style and script. Texts of users, models and the server enter the page
// as text alone, never as HTML.
#pragma once

#include <string_view>

namespace lazyprune {
namespace program {

inline constexpr std::string_view chat_page_body = R"html(<header>
<h1>lazyprune</h1>
<p id="model" class="quiet"></p>
</header>
<aside aria-label="Document and settings">
<p id="key-line" hidden><label for="key">API key</label><input id="key" type="password" autocomplete="off"></p>
<div class="heading"><label for="document">Document</label><small id="size"></small></div>
<textarea id="document" rows="9" placeholder="Paste a text to ask about, or choose a file." spellcheck="false"></textarea>
<p class="file"><label for="file">From a file</label><input id="file" type="file"></p>
<p class="settings">
<span><label for="most">Max tokens</label><input id="most" type="number" min="1" step="1" value="256"></span>
<span><label for="temperature">Temperature</label><input id="temperature" type="number" min="0" max="2" step="0.1" value="0"></span>
<span class="check"><input id="prune" type="checkbox" checked><label for="prune">Prune the prompt</label></span>
</p>
</aside>
<main>
<noscript><p>This page needs JavaScript. Clients of OpenAI's API do not need the page.</p></noscript>
<section id="conversation" role="log" aria-label="Conversation" tabindex="0"></section>
<form id="ask">
<label for="question">Question</label>
<textarea id="question" rows="2" placeholder="Ctrl+Enter sends it."></textarea>
<p class="buttons">
<button id="send" type="submit" class="main">Send</button>
<button id="stop" type="button" disabled>Stop</button>
<button id="new" type="button">New conversation</button>
</p>
</form>
</main>
<script>@{script}</script>
)html";

inline constexpr std::string_view chat_page_style = R"css(
:root { color-scheme: light dark; --page: #fff; --box: #f6f8f9; --edge: #8d979e; --accent: #0072b2; --fault: #b3261e;
        --kept: rgb(86 180 233 / 85%); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8eb; --quiet: #9fabb3; --line: #343d44; --page: #14181b; --box: #1d2327; --edge: #65717a; --accent: #56b4e9;
          --fault: #ff9d94; --kept: rgb(0 114 178 / 95%); }
}
body { background: var(--page); max-width: 1400px; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .9rem; margin-bottom: .8rem; }
h1, header p { margin: 0; }
header p { overflow-wrap: anywhere; }
label { font-size: .85rem; font-weight: 600; }
.quiet { color: var(--quiet); }
textarea, input:not([type=checkbox]):not([type=file]) { width: 100%; padding: .45rem .6rem; border: 1px solid var(--edge); border-radius: 6px;
                                                        background: var(--page); color: var(--ink); font: inherit; }
textarea { display: block; margin-top: .25rem; resize: vertical; }
textarea:read-only { background: var(--box); color: var(--quiet); }
input[type=file] { min-width: 0; max-width: 100%; font: inherit; font-size: .85rem; }
button { padding: .4rem 1rem; border: 1px solid var(--edge); border-radius: 6px; background: var(--page); color: var(--ink); font: inherit; cursor: pointer; }
button.main { border-color: var(--accent); background: var(--accent); color: var(--page); font-weight: 600; }
button:hover:enabled { filter: brightness(.93); }
button:disabled { opacity: .45; cursor: default; }
:focus-visible { outline: 3px solid #e69f00; outline-offset: 1px; }
.heading { display: flex; justify-content: space-between; align-items: baseline; gap: .6rem; }
.file, .settings, .buttons, #key-line { margin: .6rem 0 0; }
#key-line { margin: 0 0 .8rem; }
.file { display: flex; flex-wrap: wrap; align-items: center; gap: .2rem .6rem; }
.settings { display: flex; flex-wrap: wrap; align-items: flex-end; gap: .6rem; }
.settings > span { flex: 1 1 6.5rem; }
.settings .check { display: flex; flex: 1 1 100%; align-items: center; gap: .4rem; }
.buttons { display: flex; flex-wrap: wrap; gap: .5rem; }
#new { margin-left: auto; }
main { margin-top: 1.1rem; }
#conversation:empty::before { content: "Ask about the document. Below the answer, the page shows its times and the pruned tokens.";
                              color: var(--quiet); }
#ask { padding-top: .8rem; }
.turn { margin-bottom: 1.4rem; }
.question, .answer, .tokens { white-space: pre-wrap; overflow-wrap: anywhere; }
.question { width: fit-content; max-width: 85%; margin: 0 0 .7rem auto; padding: .5rem .8rem; border-radius: 12px 12px 2px 12px; background: var(--box);
            border: 1px solid var(--line); }
.question small { display: block; }
.answer { margin: 0 0 .7rem; padding-left: .8rem; border-left: 4px solid var(--accent); min-height: 1.45em; }
.busy .answer::after { content: "\2026"; color: var(--quiet); }
.note { margin: 0 0 .7rem; color: var(--quiet); }
.fault { margin: 0 0 .7rem; padding: .45rem .8rem; border: 1px solid var(--fault); border-radius: 6px; color: var(--fault); overflow-wrap: anywhere; }
.facts { gap: .35rem; margin-bottom: .6rem; }
.facts:empty { display: none; }
.facts div { flex: 1 0 auto; padding: .2rem .6rem; }
.facts dd { font-variant-numeric: tabular-nums; }
summary { cursor: pointer; font-size: .9rem; font-weight: 600; }
.levels { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0; padding: 0; list-style: none; font-size: .85rem; }
.levels i { display: inline-block; width: 1.1em; height: 1.1em; margin-right: .4em; border: 1px solid var(--edge); border-radius: 3px; vertical-align: -.15em; }
.levels i, .tokens span { background: color-mix(in srgb, var(--kept) var(--share), transparent); }
.tokens { max-height: 17rem; margin: 0; padding: .5rem .7rem; overflow: auto; border: 1px solid var(--line); border-radius: 6px; line-height: 1.75; }
.tokens span { padding: .1em 0; }
.tokens .pruned { color: var(--quiet); }
@media (min-width: 900px) and (min-height: 500px) {
  body { display: grid; grid-template: auto minmax(0, 1fr) / minmax(18rem, 3fr) minmax(0, 7fr); gap: 0 1.6rem; height: 100vh; padding-bottom: 1.2rem; }
  header { grid-column: 1 / 3; }
  aside, main { display: flex; flex-direction: column; min-height: 0; margin: 0; }
  aside { padding-right: 1.6rem; border-right: 1px solid var(--line); }
  #document { flex: 1 1 auto; resize: none; }
  #conversation { flex: 1 1 auto; min-height: 0; overflow: auto; padding: 0 .6rem 0 .2rem; }
}
@media (max-width: 899px) { body { padding: 1rem; } }
)css";

inline constexpr std::string_view chat_page_script = R"js(
'use strict';
const byId = id => document.getElementById(id);
const number = n => n.toLocaleString('en-US');
const percent = share => (100 * share).toFixed(share < 1 ? 1 : 0) + ' %';
const seconds = ms => ms < 1000 ? ms.toFixed(0) + ' ms' : (ms / 1000).toFixed(2) + ' s';
const tokens = n => number(n) + (n === 1 ? ' token' : ' tokens');

const turns = [];  // of this conversation: what was sent, and the answer
let model = {has_chat_template: true};
let running = null;  // the AbortController of the answer in progress

function made(name, className, ...children) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...children);
  return element;
}

async function ask(path, body, signal) {
  const headers = {'Content-Type': 'application/json'};
  if (byId('key').value) headers.Authorization = 'Bearer ' + byId('key').value;
  const answer = await fetch(path, body ? {method: 'POST', headers, body: JSON.stringify(body), signal} : {headers});
  if (answer.ok) return answer;
  if (answer.status === 401) byId('key-line').hidden = false;
  const text = await answer.text();
  let message = text.trim() || 'status ' + answer.status;
  try { message = JSON.parse(text).error.message; } catch { /* not every fault is JSON */ }
  throw new Error(message);
}

async function learnModel() {
  try {
    model = (await (await ask('v1/models')).json()).data[0];
    byId('model').textContent = `${model.id}, ${number(model.max_model_len)} tokens of context` +
      (model.has_chat_template ? '' : ', no chat template, so it continues the text');
  } catch (fault) {
    byId('model').textContent = fault.message;
  }
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '';;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    yield* parts.map(part => part.slice('data: '.length));
  }
}

function requestFor(content) {
  const body = {
    stream: true,
    stream_options: {include_usage: true},
    max_tokens: byId('most').valueAsNumber,  // an empty field is null in JSON, and the server then decides
    temperature: byId('temperature').valueAsNumber,
    pruning: byId('prune').checked ? {show_kept: true, continue: model.has_chat_template} : false,
  };
  if (!model.has_chat_template)
    return ['v1/completions', {prompt: turns.map(turn => turn.content + turn.answer + '\n\n').join('') + content, ...body}];
  const messages = turns.flatMap(turn => [{role: 'user', content: turn.content}, {role: 'assistant', content: turn.answer}]);
  return ['v1/chat/completions', {messages: [...messages, {role: 'user', content}], ...body}];
}

// The numbers below an answer.
function factsOf({begun, first, last, usage, cut}) {
  const list = made('dl', 'facts');
  const add = (label, value) => list.append(made('div', '', made('dt', '', label), made('dd', '', value)));
  if (first) {
    add('first token', seconds(first - begun));
    add('last token', seconds(last - begun));
  }
  if (!usage) return list;
  const {rows, dense_rows} = usage.pruning, count = usage.completion_tokens;
  if (count > 1 && last > first) add('tokens/s', (1000 * (count - 1) / (last - first)).toFixed(1));
  add('answer tokens', number(count) + (cut ? ', cut' : ''));
  add('prompt tokens', number(usage.prompt_tokens));
  add('cached tokens', number(usage.prompt_tokens_details.cached_tokens));
  add('rows computed', percent(rows / dense_rows));
  return list;
}

function pictureOf({texts, layers}) {
  const all = layers.reduce((most, n) => Math.max(most, n), 0);  // every layer computes the last token
  const said = n => `${n} of ${all} layers`;
  const share = layers.reduce((sum, n) => sum + n, 0) / (all * layers.length);
  const shade = (element, n) => {
    element.style.setProperty('--share', 100 * (n / all) ** 1.25 + '%');  // the power makes late stages easier to tell apart
    return element;
  };
  const counts = new Map();
  for (const n of layers) counts.set(n, (counts.get(n) ?? 0) + 1);
  const levels = made('ul', 'levels', ...[...counts].sort(([a], [b]) => b - a).map(([n, count]) =>
    made('li', '', shade(made('i', ''), n), `${said(n)}: ${tokens(count)}`)));
  const text = made('p', 'tokens', ...texts.map((piece, t) => {
    const span = shade(made('span', layers[t] < all ? 'pruned' : '', piece.replace(/\n/g, '\u23ce\n')), layers[t]);
    span.title = said(layers[t]);
    return span;
  }));
  text.tabIndex = 0;
  const picture = made('details', 'kept', made('summary', '', share < 1 ?
    `What was kept: ${percent(share)} of the prompt's rows` : 'Nothing was pruned'), levels, text);
  picture.open = share < 1;
  return picture;
}

function follow(change) {  // keeps the end of the conversation in view
  const log = byId('conversation'), atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function setRunning(controller) {
  running = controller;
  byId('send').disabled = byId('new').disabled = controller !== null;
  byId('stop').disabled = controller === null;
  byId('document').readOnly = byId('file').disabled = controller !== null || turns.length > 0;
}

async function send() {
  const question = byId('question').value, text = byId('document').value;
  if (running || !question.trim()) return;
  const withDocument = turns.length === 0 && text.trim() !== '';
  const content = withDocument ? text + '\n\n' + question : question;
  const answer = made('p', 'answer'), turn = made('article', 'turn busy', made('p', 'question', question), answer);
  if (withDocument) turn.firstChild.append(made('small', '', `with the document, ${number(text.length)} characters`));
  for (const picture of document.querySelectorAll('.kept')) picture.open = false;
  byId('conversation').append(turn);
  byId('conversation').scrollTop = byId('conversation').scrollHeight;
  byId('question').value = '';
  setRunning(new AbortController());

  const got = {begun: performance.now(), first: 0, last: 0, usage: null, cut: false};
  let unshown = '';
  const show = () => {
    follow(() => answer.append(unshown));
    unshown = '';
  };
  try {
    const [path, body] = requestFor(content);
    let ended = false;
    for await (const data of events(await ask(path, body, running.signal))) {
      if (data === '[DONE]') {
        ended = true;
        continue;
      }
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      if (event.usage) got.usage = event.usage;
      for (const choice of event.choices) {
        const piece = choice.text ?? choice.delta.content ?? '';
        if (piece || choice.finish_reason) got.last = performance.now();
        if (piece && !got.first) got.first = got.last;
        got.cut = choice.finish_reason === 'length';
        if (piece && !unshown) requestAnimationFrame(show);  // tokens may come faster than the browser can lay them out
        unshown += piece;
      }
    }
    if (!ended) throw new Error('The connection ended before the answer did.');
    show();
    turns.push({content, answer: answer.textContent});
  } catch (fault) {
    const stopped = fault.name === 'AbortError';
    show();
    turn.append(made('p', stopped ? 'note' : 'fault', stopped ? 'Stopped.' : fault.message));
    if (stopped && answer.textContent) turns.push({content, answer: answer.textContent});
    else if (!byId('question').value) byId('question').value = question;
    if (!stopped) turn.lastChild.role = 'alert';
  }
  turn.classList.remove('busy');
  turn.append(factsOf(got));
  const kept = got.usage?.pruning.kept;
  follow(() => turn.append(kept ? pictureOf(kept) : ''));
  setRunning(null);
}

function showSize() {
  const length = byId('document').value.length;
  byId('size').textContent = length ? number(length) + ' characters' : '';
}

byId('ask').addEventListener('submit', event => {
  event.preventDefault();
  send();
});
document.addEventListener('keydown', event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
});
byId('stop').addEventListener('click', () => running?.abort());
byId('new').addEventListener('click', () => {
  turns.length = 0;
  byId('conversation').replaceChildren();
  setRunning(null);
  byId('question').focus();
});
byId('file').addEventListener('change', async event => {
  const [file] = event.target.files;
  if (file) byId('document').value = await file.text();
  showSize();
});
byId('document').addEventListener('input', showSize);
byId('key').addEventListener('change', learnModel);
learnModel();
showSize();
)js";

}  // namespace program
}  // namespace lazyprune
