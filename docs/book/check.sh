#!/usr/bin/env bash
# Checks the book and the documents beside it: SUMMARY.md names each page of the book once, pages name only files and headings
# that exist, quote code and lines of the log as they are, and have a section for each alert. Needs neither mdbook nor a
# network; addresses of other hosts are not looked at.
#
#   docs/book/check.sh
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
book=docs/book/src
faults=0

fault() { echo "$*" >&2; faults=$((faults + 1)); }

# prose FILE: without blocks of code and without code in lines, whose brackets are no links.
# shellcheck disable=SC2016 # backquotes of Markdown
prose() { awk '/^ *```/ {inside = !inside; next} !inside' "$1" | sed 's/`[^`]*`//g'; }

# links FILE: the targets of its links, one a line.
links() { prose "$1" | grep -oE '\]\([^)]+\)' | sed 's/^](//; s/)$//; s/ ".*"$//' || true; }

# anchors FILE: the anchors of its headings, as mdBook and most forges make them.
anchors() {
  awk '/^ *```/ {inside = !inside; next} !inside && /^#+ /' "$1" |
    sed -E 's/^#+ +//; s/\[([^]]*)\]\([^)]*\)/\1/g' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# check FILE: each relative link leads to a file, and to a heading of it.
check() {
  local link path anchor target
  while IFS= read -r link; do
    case $link in *://* | mailto:* | '') continue ;; esac
    path=${link%%#*} anchor=
    case $link in *#*) anchor=${link#*#} ;; esac
    target=$1
    if [ -n "$path" ]; then target=$(dirname "$1")/$path; fi
    if [ ! -e "$target" ]; then
      fault "$1: no such file: $link"
    elif [ -n "$anchor" ] && ! anchors "$target" | grep -qxF -- "$anchor"; then
      fault "$1: no such heading: $link"
    fi
  done < <(links "$1")
}

# Each page once, and no other.
summary=$(links "$book/SUMMARY.md" | sort)
pages=$(cd "$book" && find . -name '*.md' ! -name SUMMARY.md | sed 's|^\./||' | sort)
while IFS= read -r line; do
  case $line in
    '<'*) fault "SUMMARY.md names what is no page: ${line#< }" ;;
    '>'*) fault "SUMMARY.md lacks the page: ${line#> }" ;;
  esac
done < <(diff <(echo "$summary") <(echo "$pages") || true)

# Pages are rendered beside each other: what is outside of the book has no address there.
while IFS= read -r page; do
  outside=$(links "$page" | grep -E '^\.\./' || true)
  [ -z "$outside" ] || fault "$page: leads out of the book: $outside"
done < <(find "$book" -name '*.md')

# What pages quote exists: code below a comment `from FILE`, and lines of the log, which are in quotes and begin with a capital.
while IFS= read -r page; do
  while IFS=$'\t' read -r source line; do
    grep -qxF -- "$line" "$source" || fault "$page: $source has no line: $line"
  done < <(awk '
    /^<!-- from .* -->$/ { source = $3; next }
    /^```/ { quoting = !quoting && source != ""; if (!quoting) source = ""; next }
    quoting && NF { print source "\t" $0 }' "$page")
  # shellcheck disable=SC2016 # a backquote of Markdown
  while IFS= read -r text; do
    grep -rqF --include='*.rs' -- "$text" client controller controllers informer node serving src ||
      fault "$page: no such line of the log: $text"
  done < <(grep -oE '`"[A-Z][^"`]{8,}' "$page" | cut -c3- | sort -u)
done < <(find "$book" -name '*.md')

# Each alert of the manifests has its section, which their runbook links may name.
while IFS= read -r alert; do
  grep -qxF -- "## $alert" "$book/alerts.md" || fault "$book/alerts.md has no section: $alert"
done < <(grep -rhoE -- '- alert: *"?[A-Za-z]+' manifests | sed 's/.*[ "]//' | sort -u)

checked=0
while IFS= read -r file; do
  check "$file"
  checked=$((checked + 1))
done < <(find . -name '*.md' -not -path './target/*' -not -path './.git/*' -not -path './docs/book/book/*' | sort)

if [ "$faults" -ne 0 ]; then echo "$faults faults" >&2; exit 1; fi
echo "$checked documents: all links hold"
