# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # those who source it use the names
# Where the results of a run go, and what a report says of the run. guest.sh and series.sh source this.

# The tests in $CACHE/run/$1/console.log, a line each, as ktap.py prints them.
ktap()
{
	in_root python3 -B /project/tools/testing/iomap/ktap.py "/cache/${TREE##*/}/tools/testing/kunit" \
		"/cache/run/$1/console.log" </dev/null
}

# What a report says of this run: arguments for the program that writes it in $about, and words in
# $about_text.
about_run()
{
	local git=(git -c "safe.directory=$PROJECT" -C "$PROJECT") commit

	about=("--date=$(date -u -d "@$IOMAP_T0" +%Y-%m-%dT%H:%M:%SZ)") about_text=$(date -u -d "@$IOMAP_T0" +%Y-%m-%d)
	if commit=$("${git[@]}" rev-parse HEAD 2>/dev/null); then
		about+=("--commit=$commit") about_text+=", commit ${commit:0:12}"
		[ -z "$("${git[@]}" status --porcelain 2>/dev/null)" ] || about+=(--dirty) about_text+=" with changes"
	fi
}

# Makes a directory for results of the kind $1, results/<time>-$1, in $results. When all are there,
# results/latest-$1 is to point to it; without "-bench", which is what most look for.
publish()
{
	latest=latest-$1
	latest=results/${latest/-bench/} results=results/$(date -u -d "@$IOMAP_T0" +%Y%m%dT%H%M%SZ)-$1
	mkdir -p "$PROJECT/$results"
}

# All results are in $results.
published()
{
	ln -sfn "${results#results/}" "$PROJECT/$latest"
	give_back "$PROJECT/results" 2>/dev/null || :
	say "results: $results/, also as $latest/"
}

# report_tests RUN [ARG...]: the end of a test run. Has report.py, with these arguments, publish what is
# in $CACHE/run/RUN and of its guests in $CACHE/run/RUN-*, says it, and exits.
report_tests()
{
	local status=0

	publish test
	in_root python3 -B /project/tools/testing/iomap/report.py "/cache/run/$1" "/project/$results" "${only_args[@]}" \
		"--kunit-parser=/cache/${TREE##*/}/tools/testing/kunit" "--seconds=$(($(date +%s) - IOMAP_T0))" \
		"${@:2}" </dev/null || status=$?
	# One that could not be made has no last line.
	[ -s "$PROJECT/$results/report.txt" ] || die "there is no report"
	published
	cat "$PROJECT/$results/report.txt"
	exit $status
}
