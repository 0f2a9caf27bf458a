// SPDX-License-Identifier: MIT
// The template of a sweep's page (pages/sweep_page.hpp): its body and style. "@{name}" is a placeholder for a value.
#pragma once

#include <string_view>

namespace lazyprune {
namespace program {

inline constexpr std::string_view sweep_page_body = R"html(<header>
<h1>@{title}</h1>
<p>LazyLLM (<a href="https://arxiv.org/abs/2407.14057">arXiv 2407.14057</a>) computes, at each layer, only the prompt tokens that matter for
the next token. The paper claims the dense model's accuracy with a shorter time to the first token (TTFT). This page shows its Tables 1 and
2 and its Figures 5, 6 and 7 with the results of one model.</p>
<dl class="facts">
@{facts}</dl>
</header>

<section>
<h2>What was measured</h2>
<p>Each prompt was answered by the dense model and by every method at every budget, on the same weights.</p>
<dl class="words">
<dt>budget</dt><dd>the share of the dense prefill's rows that a method may compute; a row is one token at one layer. Methods
with a dense prefill let the later steps see that share of the tokens instead.</dd>
<dt>score</dt><dd>the task's own metric, from 0 to 100; mean over its samples.</dd>
<dt>lost</dt><dd>the dense model's score minus the method's, in points, sample by sample on the same prompts. It is below 0 if the method
scores higher.</dd>
<dt>TTFT speedup</dt><dd>the dense model's mean time to the first token divided by the method's, on the same prompts: 2x
is half the time.</dd>
<dt>overall speedup</dt><dd>the same for the time from the prompt to the last token, including TTFT. Answers may differ in length: the
numbers of generated tokens are under <a href="#results">All results</a>.</dd>
<dt>intervals</dt><dd>below a number or in brackets: 95 %, by the percentile bootstrap over samples. A group of several tasks has the
mean of its tasks' means; its interval assumes that the tasks are independent. An interval of width 0 means that all these samples had the
same result. Other samples may differ.</dd>
</dl>
@{tasks}
<h3>The methods</h3>
<p><i>name</i>@3+5 prunes after layers 3 and 5. Layers count from 1, as in the paper's figures.</p>
<dl class="words">
@{methods}</dl>
</section>

<section>
<h2>Table 1. Accuracy and TTFT speedup</h2>
<p>The paper's Table 1, with every budget instead of one setting per method. <b>Bold</b>: the interval of the points lost reaches 0, so
these runs show no certain loss. With few samples a real loss can stay hidden. The last rows are the mean over all tasks.</p>
@{table1}</section>

<section>
<h2>Table 2. Prompt tokens computed, and overall speedup</h2>
<p>The paper's Table 2. Computed: the share of the prompt's rows that were computed by the end of the generation. It is above the budget if
tokens come back after the first token: that work was postponed, not saved. For compression, the share leaves out the first, dense pass over
the prompt; the speedup includes it.</p>
@{table2}</section>

<section>
<h2>Figure 5. Accuracy over TTFT speedup</h2>
@{figure5}</section>

<section>
<h2>Figure 6. Sensitivity to where and how much is pruned</h2>
@{figure6}</section>

<section>
<h2>Figure 7. Prompt tokens computed during the generation</h2>
@{figure7}</section>

<section id="results">
<h2>All results</h2>
<p>One row per setting and task: the data of the tables and figures above. A dash means that nothing was measured.</p>
@{results}</section>

<section>
<h2>The settings</h2>
<p>The flags of <code>lazyprune run</code> for each setting. Settings that do more than prune are described in words.</p>
@{settings}</section>
)html";

inline constexpr std::string_view sweep_page_style = R"css(
body { max-width: 76rem; }
h2 { margin-top: 2rem; font-size: 1.2rem; }
h3 { margin: 1.2rem 0 .35rem; font-size: 1rem; }
p, .words { max-width: 58rem; margin: .4rem 0 .7rem; }
.words { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
.words dt { font-weight: 600; }
.words dd { margin: 0; }
.wide { overflow-x: auto; margin-bottom: .8rem; }
table { font-size: .87rem; font-variant-numeric: tabular-nums; }
th { font-weight: 600; }
thead th { text-align: center; vertical-align: bottom; white-space: normal; }
td { text-align: right; white-space: nowrap; }
td.text { text-align: left; }
td.flags { text-align: left; white-space: normal; overflow-wrap: anywhere; }
tbody th { font-weight: normal; }
tbody th[rowspan] { font-weight: 600; }
tbody { border-top: 2px solid var(--quiet); }
td small { display: block; font-size: .78rem; line-height: 1.1; }
td.all { text-align: left; background: #f3f5f6; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(21rem, 1fr)); gap: 1rem 1.5rem; }
.charts figure { margin: 0; }
.charts svg { width: 100%; height: auto; max-width: 30rem; }
figcaption { font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.3rem; margin: .4rem 0; padding: 0; list-style: none; font-size: .87rem; }
.legend li { display: flex; align-items: center; gap: .45rem; }
.legend svg { flex: none; width: 40px; }
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  :root { font-size: 11px; }
  body { max-width: none; padding: 0; font-size: 1rem; }
  th, td { padding: .05rem .4rem; line-height: 1.2; }
  h2, h3, figcaption { break-after: avoid; }
  tbody.group, tr, figure, .legend { break-inside: avoid; }
  .legend { break-after: avoid; }
  .wide { overflow: visible; }
  .charts { grid-template-columns: repeat(3, 1fr); }
  a { color: inherit; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace program
}  // namespace lazyprune
