# SPDX-License-Identifier: MIT
# Writes golden.jsonl: small templates and their renderings by jinja2, configured as in transformers.
# python3 make_golden.py > golden.jsonl        (jinja2 3.1)
import datetime
import json

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime(2024, 7, 26, 9, 5, 3).strftime(form)
    return env


VARIABLES = {'messages': [{'role': 'user', 'content': 'Hi there <|im_end|> é ß ', 'x': None},
              {'role': 'assistant', 'content': '', 'n': 3, 'f': 1.5e+20, 'l': [1, 2.0, True, None, "a'b", '"q"', '\u200b\x07é']},
              {'role': 'user', 'content': [{'type': 'text', 'text': 'T'}]}],
 'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': {'b': 1, 'a': {'z': [], 'y': {}}}}}],
 'documents': None,
 'add_generation_prompt': True,
 's': '  Hello, World  ',
 'd': {'b': 2, 'a': 1, 'C': 3},
 'l': [3, 1, 2],
 'e': [],
 'n': 5,
 'neg': -7,
 'f': 2.5,
 'multi': 'line1\nline2\r\n\n  line4',
 'big': 9007199254740993,
 'small': 1e-07,
 'bos_token': '<s>',
 'u': 'ÀÉ straße ǅ İ σς ΑΣ',
 'words': ['b', 'A', 'c', 'a', 'B'],
 'recs': [{'k': 'x', 'v': 2}, {'k': 'y', 'v': 1}, {'k': 'x', 'v': 0}]}
TEMPLATES = r"""
{{ s|trim }}|{{ s|upper }}|{{ s|lower|title }}|{{ s|capitalize }}
@@
{{ l|sort }}{{ l|sort(reverse=true) }}{{ words|sort }}{{ words|sort(case_sensitive=true) }}
@@
{{ d|dictsort }}{{ d|dictsort(by='value') }}{{ d|dictsort(true) }}{{ d|dictsort(reverse=true) }}
@@
{{ recs|map(attribute='k')|join(',') }}{{ recs|map(attribute='q', default='-')|list }}{{ words|map('upper')|list }}
@@
{{ recs|selectattr('k','equalto','x')|list|length }}{{ recs|rejectattr('v')|list }}{{ l|select('odd')|list }}{{ l|reject('gt', 1)|list }}
@@
{{ l|sum }} {{ recs|sum(attribute='v') }} {{ l|max }} {{ l|min }} {{ words|max }} {{ e|max }}
@@
{{ words|unique|list }} {{ recs|unique(attribute='k')|list }}
@@
{{ multi|indent }}|{{ multi|indent(2, true) }}|{{ multi|indent(3, blank=true) }}|{{ multi|indent('>>') }}
@@
{{ multi.splitlines() }} {{ multi.splitlines(true) }}
@@
{{ s.split() }}{{ s.split(',') }}{{ s.split(' ', 1) }}{{ s.rsplit(None, 1) }}{{ s.rsplit(' ',2) }}{{ ' a b c '.split(None,1) }}{{ ' a b c '.rsplit(None,1) }}{{ ' a b  c '.rsplit(maxsplit=1) }}
@@
{{ 'a.b.c'.partition('.') }}{{ 'a.b.c'.rpartition('.') }}{{ 'abc'.partition('.') }}{{ 'abc'.rpartition('.') }}
@@
{{ 'abcabc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'abcabc'.find('c', 3) }}{{ 'éabc'.index('b') }}{{ 'abcabc'.count('bc') }}{{ 'abc'.count('') }}{{ 'abc'.find('', 5) }}{{ 'abc'.rfind('') }}
@@
{{ 'aXbX'.replace('X','--') }}{{ 'aXbX'.replace('X','--',1) }}{{ 'ab'.replace('','-') }}{{ 'ab'|replace('','-', 2) }}{{ 5|replace('5','6') }}
@@
{{ 'a'.center(5) }}|{{ 'ab'.center(5,'*') }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}|{{ '-4'.zfill(5) }}|{{ 'abc'.center(6,'*') }}|{{ 'abcd'.center(7,'*') }}
@@
{{ 'abc'[::-1] }}{{ 'héllo'[1:3] }}{{ 'héllo'[-2:] }}{{ 'héllo'[1] }}{{ 'abc'[10] }}{{ 'abc'[10:] }}{{ l[::-1] }}{{ l[-1] }}{{ l[5] }}{{ l[::2] }}{{ l[5:1:-1] }}{{ l[:-1] }}{{ l[-100:100] }}
@@
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2.0 }} {{ true + 1 }} {{ 2 * 'ab' }} {{ [1] * 3 }} {{ 'a' * -1 }}
@@
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.123 }} {{ 1e100 }} {{ 1.5e-10 }} {{ small }} {{ big }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 3.0 * 2 }}
@@
{{ messages[1].l }} {{ messages[1].f }} {{ messages[0].x }} {{ messages[0] }} {{ tools }} {{ (1,) }} {{ (1,2) }} {{ () }} {{ {} }} {{ [] }} {{ {'a': none} }}
@@
{{ tools|tojson }}{{ tools|tojson(indent=2) }}{{ messages[1]|tojson(indent=4) }}{{ d|tojson(sort_keys=true) }}{{ d|tojson(separators=(',',':')) }}{{ u|tojson(ensure_ascii=true) }}{{ messages[1]|tojson(true) }}{{ d|tojson(indent=0) }}{{ d|tojson(indent='\t') }}{{ '😀'|tojson(ensure_ascii=True) }}
@@
{{ undefined_thing|tojson }}
@@
{{ undefined_thing }}|{{ undefined_thing|default('x') }}|{{ ''|default('y', true) }}|{{ none|d('z') }}|{{ undefined_thing|length }}|{{ undefined_thing is defined }}|{{ d.zz is defined }}|{{ undefined_thing|list }}|{{ undefined_thing|join }}
@@
{{ undefined_thing.x }}
@@
{{ undefined_thing + 'a' }}
@@
{{ 'a' + undefined_thing }}
@@
{{ 'a' ~ 1 ~ none ~ true ~ undefined_thing ~ 1.5 ~ [1] }}
@@
{{ 'a' in 'abc' }} {{ 1 in l }} {{ 'b' in d }} {{ 9 not in l }} {{ 'x' in undefined_thing }} {{ '' in '' }}
@@
{{ 1 in 'abc' }}
@@
{{ 'a' in none }}
@@
{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == none }} {{ undefined_a == undefined_b }} {{ [1] == (1,) }} {{ {'a':1} == {'a':1.0} }}
@@
{{ 1 < 'a' }}
@@
{{ undefined_thing < 1 }}
@@
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.changed(x) }}{{ loop.depth }}
{% endfor %}
@@
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}
@@
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}{{ d.keys()|list }}{{ d.get('zz') }}{{ d.get('zz', 4) }}
@@
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
@@
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
@@
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns['a'] }}
@@
{% set x %}a{{ 1 }}b{% endset %}{{ x }}{% set y | upper | trim %} q {% endset %}{{ y }}
@@
{% macro m(a, b=2, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}
@@
{% macro m(a, b=2) %}[{{ a }}-{{ b }}{{ caller is defined }}]{% endmacro %}{{ m(1) }}{{ m(1,3) }}{{ m(b=5) }}{{ m(1, b=m(7)) }}
@@
{% macro m(a) %}x{% endmacro %}{{ m(1,2) }}
@@
{% macro m(a) %}x{% endmacro %}{{ m(z=2) }}
@@
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{% endcall %}{% macro o2() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) o2() %}{{ a + b }}{% endcall %}
@@
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
@@
{% filter upper %}abc{{ 'd' }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}
@@
{% raw %}{{ x }} {% if %}{% endraw %}!
@@
a
  {% if true %}
    b
  {% endif %}
c
  {{ 'd' }}
 {#- c -#}  
   x {%- if true -%}  y  {%- endif -%}  z
@@
a   {%+ if true %}
b {% endif +%}
c
@@
{# comment #}
x
{#- y #} z
@@
{{- '  a  ' -}}   b   {{- 'c' }}


@@
line
   {% raw %}
  r  
   {% endraw %}
 end
@@
{{ 'it''s' }}{{ "a" "b" }}{{ 'q\'w' }}{{ '\n\t\x41\u00e9\U0001F600\101\q' }}
@@
{{ -1|abs }}{{ -n|abs }}{{ (-n)|abs }}{{ -neg }}{{ +5 }}{{ not true }}{{ not not 1 }}
@@
{{ 'a' if true }}{{ 'a' if false }}{{ 'a' if false else 'b' }}{{ 1 if 0 else 2 if 0 else 3 }}
@@
{{ n is odd }}{{ n is even }}{{ n is divisibleby 5 }}{{ n is number }}{{ f is float }}{{ n is integer }}{{ true is integer }}{{ true is number }}{{ s is string }}{{ d is mapping }}{{ l is sequence }}{{ l is iterable }}{{ s is iterable }}{{ none is none }}{{ x is none }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ true is boolean }}{{ 'a' is in ['a'] }}{{ n is sameas 5 }}{{ 1 is eq 1 }}{{ 1 is lt(2) }}{{ d is sequence }}{{ undefined_thing is sequence }}{{ undefined_thing is iterable }}{{ range is callable }}{{ 'AB' is upper }}{{ 'ab' is lower }}{{ n is not none }}
@@
{{ '42'|int }}{{ '42.9'|int }}{{ 'x'|int }}{{ 'x'|int(7) }}{{ 3.99|int }}{{ none|int }}{{ '1.5'|float }}{{ 'x'|float }}{{ ' 12 '|int }}{{ '+3'|int }}{{ true|int }}
@@
{{ 2.5|round }}{{ 3.5|round }}{{ 2.567|round(2) }}{{ 2.1|round(method='ceil') }}{{ 2.19|round(1,'floor') }}{{ 5|round }}{{ 2.675|round(2) }}
@@
{{ '%s is %d%%' % ('a', 5) }}{{ '%s' % 'x' }}{{ '%s %s' % (l, none) }}
@@
{{ '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('a','b') }}{{ '{x}'.format(x=3) }}{{ '{{}}'.format() }}
@@
{{ '<a&b>'|escape }}{{ '<a>'|e ~ '<b>' }}{{ '<a>'|safe + '<b>' }}{{ '<a>'|safe ~ '<b>' }}{{ '<a>'|e|e }}
@@
{{ l|first }}{{ l|last }}{{ e|first }}{{ s|first }}{{ 'abc'|reverse }}{{ l|reverse|list }}{{ 'abc'|list }}{{ d|list }}{{ d|length }}{{ d|first }}
@@
{{ l|map('string')|join('-') }}{{ 5|string + 'a' }}{{ [1,[2,'a']]|join(',') }}{{ recs|join(',', attribute='k') }}{{ l|batch(2)|list }}{{ l|batch(2,'x')|list }}
@@
{{ strftime_now('%d %b %Y %H:%M:%S %A %j %-d %%') }}
@@
{{ raise_exception('boo: ' + s) }}
@@
{{ foo }}{% set foo = 1 %}{{ foo }}
@@
{% if x is defined and x %}a{% elif n %}b{% else %}c{% endif %}
@@
{{ l.append(1) }}
@@
{{ d.update({'a': 1}) }}
@@
{{ s.nope() }}
@@
{{ s.__class__ }}
@@
{{ nofunc() }}
@@
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% for a, b in [(1,2),[3,4]] %}{{ a }}{{ b }}{% endfor %}
@@
{% set a, b = [1,2,3] %}
@@
{% for x in 5 %}{% endfor %}
@@
{% for x in none %}{% endfor %}
@@
{{ l|map('upper')|first }}{{ (l|select('odd')) is iterable }}{{ (l|select('odd')) is sequence }}
@@
{{ (l|select('odd'))|length }}
@@
{% set g = l|select %}{{ g|list }}{{ g|list }}
@@
{{ [1,2,3].index(2) }}{{ [1,1].count(1) }}{{ (1,2).index(2) }}
@@
{{ range(3)|list }}{{ range(1,10,3)|list }}{{ range(5,0,-2)|list }}{{ range(3)[1] }}{{ range(3)|length }}{{ 2 in range(3) }}
@@
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}
@@
{{ 'a' and 'b' }}{{ '' or 'c' }}{{ none and 1 }}{{ 0 or none }}
@@
{{ 'Hello' 'World' }}{{ "nested {{ braces }}" }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {'b': 1}}.a.b }}{{ [[1]][0][0] }}{{ l.0 }}
@@
{{ (1,2) + (3,) }}{{ [1] + [2] }}
@@
{{ [1] + (2,) }}
@@
{{ 1 / 0 }}
@@
{{ s.startswith(('  H','x')) }}{{ s.endswith('  ') }}{{ s.strip() }}{{ s.strip(' H') }}{{ 'xxaxx'.lstrip('x') }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('bc') }}{{ 'a-b'.title() }}{{ "it's"|title }}{{ "it's".title() }}
@@
{{ 'abc'.isalpha() }}{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ ''.isalpha() }}{{ 'A1'.isupper() }}{{ 'é'.isalpha() }}{{ '1a'.islower() }}
@@
{{ ','.join(words) }}{{ ','.join(d) }}
@@
{{ ','.join(l) }}
@@
{% if not messages %}a{% endif %}{% if messages[5] %}x{% endif %}{{ messages[0]['content'][:3] }}{{ messages[-1]['content'][0]['text'] }}{{ messages|length }}{{ messages[1:]|length }}
@@
{% set m = {0: 'a', 512: 'b', 16: {1: 2}} %}{{ m }}{{ m[512] }}{{ m[16][1] }}{{ m|dictsort }}{{ m|tojson }}{{ 0 in m }}{{ '0' in m }}{{ m.get(5, 'none') }}{% for k, v in m.items() %}{{ k }}{% endfor %}
@@
{{ messages|map(attribute='role')|list }}{{ messages|map(attribute='content.0.text')|list }}{{ messages|selectattr('content')|list|length }}{{ messages|selectattr('n','defined')|list|length }}
@@
{{ 1_000 }}{{ 1e3 }}{{ 1.5e3 }}{{ 1E2 }}
@@
{%- for m in messages %}{{ m.role }}{{ '' if loop.last else ',' }}{%- endfor %}
@@
{{ x.y.z }}
@@
{{ none.foo }}{{ none['foo'] }}{{ 5.foo }}
@@
{{ none.foo.bar }}
@@
{{ l|nofilter }}
@@
{{ l is notest }}
@@
{% include 'x' %}
@@
{% unknown %}
@@
{{ ' \u00a0x\u2003'.strip() }}|{{ '\u00a0 x'|trim }}|
@@
{%- macro a(x) -%}{%- if x -%}{{ x|first }}{{ a(x[1:]) }}{%- endif -%}{%- endmacro -%}{{ a('hey') }}
@@
{% for a in [1,2] %}{% for b in [3,4] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
@@
{% for x in l %}{% if loop.first %}{% set q = 1 %}{% endif %}{{ q }}{% endfor %}{{ q is defined }}
@@
{% if true %}{% set q = 1 %}{% endif %}{{ q }}
@@
{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}
@@
{{ recs|sort(attribute='v')|map(attribute='v')|list }}{{ recs|sort(attribute='k,v')|map(attribute='v')|list }}{{ recs|max(attribute='v') }}
@@
{{ d|tojson|length }}{{ {'a':[1,{'b':2}]}|tojson(indent=1) }}{{ {'a':[],'b':{},'c':()}|tojson(indent=2) }}
@@
{{ 'a\
b' }}
@@
{{ "a" if n > 3 and not (f < 2 or s == 'x') else "b" }}
@@
{{ ('a', 'b')|join }}{{ namespace(x=1).x }}{{ {'k': 'v'}.k }}
@@
{%- set ns = namespace(found=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'assistant' -%}
        {%- set ns.found = true -%}
    {%- endif -%}
{%- endfor -%}
{{ ns.found }}
@@
{{ true }} {{ none }} {{ 'x' * 3 }} {{ 1 ~ 2 }} {{ [none, true] }}
@@
{{ 'straße àÉ'|upper }}{{ 'ÀÉ ДА ΑΒ'|lower }}{{ 'straße over'|title }}{{ 'éCOLE'|capitalize }}
@@
{{ 'ﬁx ŉ ǆ Σ'|capitalize }}|{{ 'İ'|lower|length }}|{{ 'ﬁx (ßa ΑΣ-ΣΑΣ. ǆ ა'|title }}|{{ "ﬁx (ßa ΑΣ-ΣΑΣ. ǆ ა aʰB".title() }}|{{ 'ΐ ﬃ ᾳ ა'|upper }}|{{ 'ΑΣ ΑΣ. ΑΣΑ Σ Α\u00adΣ'|lower }}|{{ 'aB ǅ ß Σ ΑΣ İ Ⅷ'.swapcase() }}
@@
{{ '%s-%03d'|format('a', 7) }} {{ '%(a)5s|%(b)-6.2f|'|format(a='x', b=2.345) }} {{ '%%'|format }}
@@
{{ 'a %s'|format }}
@@
{{ '%05.2f|%-8s|%+d|% d|%#x|%X|%o|%e|%.3G|%g|%c%c|%r|%a|%10.4d|%.2s|%*d|%-*.*f' % (3.14159, 'ab', 5, 6, 255, 255, 8, 12345.678, 0.00001234, 1e20, 65, 'z', 'é', 'é', 42, 'héllo', 4, 7, 8, 2, 2.5) }}
@@
{{ '%(a)s %(b)03d' % {'a': 1, 'b': 2} }} {{ 'x' % {} }} {{ '%s' % {'k': 1} }} {{ '%d' % 3.99 }} {{ '%d' % 1e25 }} {{ '%s' % nope }} {{ '%.0f %.3f %05d %x' % (0.5, 2.0005, -42, -255) }}
@@
{{ '%x' % 1.5 }}
@@
{{ '%d' % 'a' }}
@@
{{ '%s %s' % 'a' }}
@@
{{ '%s' % ('a', 'b') }}
@@
{{ '%(a)s' % ('a',) }}
@@
{{ '%q' % 1 }}
@@
{{ 'a%' % 1 }}
@@
{{ '%5%' % () }}
@@
{{ '{:>4}|{:<4}|{:^5}|{:*^7}|{:04d}|{:+.1f}|{:,}|{:_x}|{:#b}|{:%}|{:.2%}|{:e}|{:g}|{:c}|{:08,.1f}|{:5}|{:5}|{:.2}|{:05}'.format('ab', 'ab', 'ab', 'é', 7, 2.25, 1234567, 65536, 5, 0.5, 0.123, 12345.0, 1e-7, 233, 1234.56, 12, 'x', 'xyz', 'q') }}
@@
{{ '{0.role} {0[content]} {m[0][role]} {0!r:>5}'.format(messages[1], m=messages)[:40] }} {{ '{:{}}|{:>{w}.{p}f}'.format('a', 3, 2.5, w=7, p=2) }} {{ '{a}-{b:>3}'.format_map({'a': 1, 'b': 'x'}) }} {{ '{!s:>4}{!a}'.format(none, 'é') }} {{ '{{{}}}'.format(1) }}
@@
{{ '{:>4}'.format([1]) }}
@@
{{ '{:d}'.format('a') }}
@@
{{ '{:s}'.format(1) }}
@@
{{ '{} {0}'.format(1) }}
@@
{{ '{'.format() }}
@@
{{ '{a}'.format(b=1) }}
@@
{{ '{:.2d}'.format(1) }}
@@
{{ '<%s>'|safe % '<a>' }}{{ ('<{}>'|safe).format('<a>') }}
@@
{% set j = joiner(', ') %}{% for i in [1, 2, 3] %}{{ j() }}{{ i }}{% endfor %}{% set k = joiner() %}{{ k() }}a{{ k() }}b{{ k() }}{{ joiner is callable }}{{ j is callable }}
@@
{{ joiner(', ')(1) }}
@@
{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}{{ c is callable }}
@@
{{ cycler() }}
@@
{% for k, g in messages|groupby('role') %}{{ k }}:{{ g|length }} {% endfor %}{% for g in recs|groupby('k') %}{{ g.grouper }}{{ g.list|map(attribute='v')|list }}{{ g[0] }}{% endfor %}{{ recs|groupby('k')|list }}
@@
{{ [{'c': 'a'}, {'c': 'A'}, {'c': 'b'}]|groupby('c') }}{{ [{'c': 'a'}, {'c': 'A'}, {'c': 'b'}]|groupby('c', case_sensitive=true) }}{{ recs|groupby('q', default='z') }}{{ [{'a': {'b': 1}}, {}]|groupby('a.b', default=0) }}
@@
{{ recs|groupby('q') }}
@@
{{ recs|map(attribute='q.r', default='-')|list }}
@@
{{ messages[0][] is undefined }}|{{ messages[0][]|default('d') }}|{{ {(1, 2): 'p', (): 'e'}[1, 2] }}{{ {(1, 2): 'p', (): 'e'}[] }}{{ l[0, 1] is defined }}
@@
{{ l[1,] }}
""".strip("\n").split("\n@@\n")

env = environment()
print(json.dumps({"variables": VARIABLES}, ensure_ascii=False))
for template in TEMPLATES:
    line = {"template": template}
    try:
        line["expected"] = env.from_string(template).render(**VARIABLES)
    except Exception as refused:  # the message is not compared
        line["refused"] = str(refused)
    print(json.dumps(line, ensure_ascii=False))
