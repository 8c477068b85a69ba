#!/usr/bin/env bash
# Check the first line of a commit message: `area: imperative summary`, at most 72 characters.
set -euo pipefail
subject=$(head -n 1 "$1")
case $subject in Merge\ *|Revert\ *|fixup!\ *) exit 0 ;; esac
if ! [[ $subject =~ ^[a-z][a-z0-9_/.-]*(,\ [a-z][a-z0-9_/.-]*)*:\ [a-z].* ]]; then
    echo "commit subject: '$subject' does not have the form 'area: imperative summary'." >&2
    exit 1
fi
if [ ${#subject} -gt 72 ]; then
    echo "commit subject: ${#subject} characters; at most 72 are allowed." >&2
    exit 1
fi
