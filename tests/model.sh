#!/bin/bash
# `shunt model`: its sums against sums worked by hand, its errors, its JSON.
# Usage: model.sh SHUNT [TEST...]
# shellcheck source=tests/support/program.sh
. "$(dirname "$0")/support/program.sh"
top=$here/..

# Each constant with a value of its own, so that a term cannot pass for
# another one.
host=(--signal-us 1 --dispatch-gbs 0.001 --combine-gbs 0.002 --quant-us 3
	--sum-us 5 --peer-us 7 --expert-ns 11000 --counts-gbs 0.004)
wire=(--wire-gbs 0.001 --wire-us 13 --message-us 17)
# 4 ranks with an expert each; each token goes to experts 0 and 1, so to ranks
# 0 and 1 of the first host; rows of 8 bytes each way.
tiny=(--ranks 4 --tokens 3 --hidden 4 --topk 2 --experts 4 --routing one
	--quant none)

# modelled OPTION...: its results in $work/json.
modelled() {
	expect 0 "$shunt" model "${tiny[@]}" "${host[@]}" --quiet \
		--json "$work/json" "$@"
}

# holds CONDITION: in Python, of `j`, what was modelled.
holds() {
	expect 0 python3 -c "
import json
j = json.load(open('$work/json'))
f, h = j['fullmesh'], j['hierarchy']
def terms(phase):
    return {k[:-3]: round(v, 6) for k, v in phase.items()
        if k.endswith('_us') and v and k != 'total_us'}
assert $1, j"
}

one_host_adds_up_as_by_hand() {
	modelled --fetch-tokens -1
	holds "h is None and j['faster'] == 'fullmesh'"
	# Per rank 3 tokens of 8 bytes are read, 6 rows written; 64 bytes of
	# counts; 2 phases with 4 peers.
	holds "terms(f['dispatch']) == {'counts': 64 / 4, 'experts': 44,
		'peers': 56, 'tokens': 9, 'copy': 72, 'latency': 2}"
	# 6 rows read, 3 tokens written.
	holds "terms(f['combine']) == {'peers': 28, 'tokens': 15, 'copy': 36,
		'latency': 1}"
	holds "f['dispatch']['total_us'] == 199 and f['roundtrip_us'] == 279"
	holds "f['dispatch']['copied_bytes'] == 288"
	holds "f['rank']['queue_pairs'] == f['rank']['registrations'] == 0"
}

few_tokens_take_one_phase() {
	modelled
	holds "f['dispatch']['signals'] == 1 and f['dispatch']['peers_us'] == 28"
	modelled --fetch-tokens 2
	holds "f['dispatch']['signals'] == 2"
	modelled --fetch-tokens 3
	holds "f['dispatch']['signals'] == 1"
}

fullmesh_over_two_hosts_adds_up_as_by_hand() {
	modelled --hosts 2 "${wire[@]}"
	# A rank reads 3 tokens and makes a row of each; ranks 0 and 1 then read
	# and write 12 rows: 24 + 24 + 192. Ranks 2 and 3 send 3 neighbours to
	# each of 2 ranks at once, places and weights, counts and 2 signals: 12
	# messages. The host takes in 12 rows of 8 bytes; it tells 2 ranks
	# its head of 584 bytes and counts of 16, and places and weights of 48.
	holds "terms(f['dispatch']) == {'counts': 16, 'experts': 44, 'peers': 56,
		'tokens': 9, 'copy': 240, 'messages': 12 * 17,
		'wire': 96 + 2592, 'latency': 13}"
	holds "f['dispatch']['wire_bytes'] == 96"
	holds "f['dispatch']['counts_bytes'] == 2 * 2 * (584 + 16 + 48)"
	# Ranks 0 and 1 send 6 rows each one by one, and notes.
	holds "terms(f['combine']) == {'peers': 28, 'tokens': 15, 'copy': 36,
		'messages': 10 * 17, 'wire': 96 + 2336, 'latency': 13}"
	holds "j['routing'] == {'remote_hosts_per_token': 0.5,
		'remote_rows_per_token': 1, 'most_rows': 12}"
}

hierarchy_over_two_hosts_adds_up_as_by_hand() {
	modelled --hosts 2 "${wire[@]}"
	# Ranks 2 and 3 send 3 neighbours to one rank: 1 + 2 + 3 * 2 messages.
	# A signal inside the host tells that they are there.
	holds "terms(h['dispatch']) == {'counts': 16, 'experts': 44, 'peers': 70,
		'tokens': 9, 'copy': 240, 'messages': 9 * 17,
		'wire': 48 + 2496, 'latency': 14}"
	# Ranks 0 and 1 read 6 rows of own tokens and 6 for sums, and write 3
	# sums and 3 tokens of 8 bytes: 96 + 24 + 24. Two ways: weights, sums.
	holds "terms(h['combine']) == {'peers': 35, 'tokens': 30, 'copy': 72,
		'messages': 9 * 17, 'wire': 48 + 2384, 'latency': 26}"
	holds "h['dispatch']['messages'] == 9 and f['dispatch']['messages'] == 12"
	holds "j['faster'] == 'hierarchy'"
}

neighbours_go_at_once_as_far_as_a_piece() {
	# 40 tokens in pieces of 16; scales are a message more to each target.
	modelled --hosts 2 "${wire[@]}" --tokens 40
	holds "f['dispatch']['messages'] == 2 * (3 + 2 + 3)"
	holds "h['dispatch']['messages'] == 3 + 2 + 2 * 3"
	modelled --hosts 2 "${wire[@]}" --tokens 40 --quant int8
	holds "f['dispatch']['messages'] == 2 * (3 + 3 + 3)"
	holds "f['dispatch']['wire_bytes'] == 160 * 4"
}

rdma_needs_add_up_as_by_hand() {
	modelled --hosts 2 "${wire[@]}" --lanes 3 --devices 2 --depth 5
	holds "f['rank']['queue_pairs'] == h['rank']['queue_pairs'] == 12"
	holds "f['rank']['registrations'] == 4"
	# A landing for each of many ranks, or one for each host.
	modelled --hosts 8 "${wire[@]}" --ranks 32 --experts 32 --topk 8 --tokens 128 \
		--hidden 512
	holds "f['rank']['wire_bytes'] > h['rank']['wire_bytes'] > 0"
	holds "f['rank']['worst_bytes'] >= f['rank']['window_bytes'] > 0"
}

ranks_that_share_cores_take_turns() {
	modelled --cores 2 --turn-us 19 --fetch-tokens -1
	holds "f['dispatch']['tokens_us'] == 18 and f['combine']['copy_us'] == 72"
	holds "f['dispatch']['turns_us'] == 76 and f['combine']['turns_us'] == 38"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --cores 2
	says err "needs --turn-us"
}

a_quantized_way_home_costs_and_saves() {
	modelled --hosts 2 "${wire[@]}" --hidden 128 --combine-quant int8-128 \
		--home-us 100
	holds "f['combine']['wire_bytes'] == 12 * 132"
	# 12 rows that a rank has are quantized; or for 3 tokens each the sums
	# of the own host and for another one.
	holds "f['combine']['tokens_us'] == 15 + 1200"
	holds "h['combine']['tokens_us'] == 30 + 600"
	holds "h['combine']['wire_bytes'] == 6 * 132"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" \
		--combine-quant int8-128
	says err "needs --home-us"
}

bytes_are_those_of_the_bench() {
	local routing
	for routing in uniform zipf:1.2 local; do
		expect 0 "$shunt" bench "${small[@]}" --routing $routing \
			--json "$work/bench"
		expect 0 "$shunt" model "${host[@]}" --ranks 3 --tokens 7 \
			--hidden 96 --topk 2 --experts 12 --quiet \
			--routing $routing --json "$work/json"
		holds "(lambda b: all(round(f[p]['copied_bytes']) ==
			b[p + '_bytes'] for p in ('dispatch', 'combine')))(
			json.load(open('$work/bench')))"
	done
}

# Writes $work/bench: a run of 2 ranks as the bench would tell it.
write_bench() {
	cat >"$work/bench" <<-END
	{"ok": true, "machine": {"cores": 6, "pinned": ${1:-true}},
	"parameters": {"ranks": 2, "tokens": 10, "hidden": 4, "topk": 2,
	"experts": 4, "dtype": "bf16", "quant": "none", "scale_form": "f32",
	"expert_dtype": "bf16", "out_dtype": "bf16", "combine_quant": "none"},
	"dispatch_us": {"p50": 100}, "combine_us": {"p50": 60},
	"dispatch_floor_us": 40, "combine_floor_us": 50, "signal_us":
	${2:-{\"p50\": 2\}}, "dispatch_bytes": 80000, "combine_bytes": 200000}
	END
}

constants_come_from_a_run_of_the_bench() {
	write_bench
	expect 0 "$shunt" model "${tiny[@]}" --from "$work/bench" --quiet \
		--json "$work/json"
	# 80000 bytes of 2 ranks in 40 us; (100 - 40 - 2 x 2 - counts) / 10.
	holds "{k: round(v, 9) for k, v in j['constants'].items() if v} == {
		'signal_us': 2, 'dispatch_gbs': 1, 'combine_gbs': 2,
		'quant_us': 5.6 - 0.0032, 'sum_us': 0.8, 'counts_gbs': 1}"
	holds "j['parameters']['cores'] == 6"
	expect 0 "$shunt" model "${tiny[@]}" --from "$work/bench" --quiet \
		--json "$work/json" --sum-us 9 --cores 4
	holds "j['constants']['sum_us'] == 9 and j['parameters']['cores'] == 4"
	expect 0 "$shunt" bench "${small[@]}" --ranks 1 --json "$work/real"
	expect 0 "$shunt" model --from "$work/real" --hidden 96 --topk 2 \
		--signal-us 1 --turn-us 1 --quiet --json -
}

a_run_that_does_not_fit_is_refused() {
	write_bench
	expect 2 "$shunt" model --from "$work/bench"
	says err "was measured with another --hidden"
	write_bench false
	expect 2 "$shunt" model "${tiny[@]}" --from "$work/bench"
	says err "its ranks shared cores"
	write_bench true null
	expect 2 "$shunt" model "${tiny[@]}" --from "$work/bench"
	says err "has no signal"
	echo '{"ok": false}' >"$work/bench"
	expect 2 "$shunt" model "${tiny[@]}" --from "$work/bench"
	says err "is no result of \`shunt bench --json'"
	expect 2 "$shunt" model "${tiny[@]}" --from "$work/none"
	says err "No such file"
}

what_is_not_measured_must_be_given() {
	expect 2 "$shunt" model
	says err "needs --signal-us, --dispatch-gbs, --combine-gbs, --quant-us"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --hosts 2
	says err "needs --wire-gbs, --wire-us, --message-us"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --hosts 3
	says err "--hosts 3: must divide --ranks, 4"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --signal-us nan
	says err "must be a number in 0 .."
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --dispatch-gbs 0
	says err "must be more than 0"
	expect 2 "$shunt" model "${tiny[@]}" "${host[@]}" --topk 9
	says err "--topk 9"
}

# write_run DISPATCH_US COMBINE_US: $work/run, a run over hosts as the bench would
# tell it, of $work/bench's rows.
write_run() {
	cat >"$work/run" <<-END
	{"ok": true, "parameters": {"ranks": 4, "hosts": 2, "tokens": 3,
	"hidden": 4, "topk": 2, "experts": 4, "dtype": "bf16", "quant": "none",
	"scale_form": "f32", "expert_dtype": "bf16", "out_dtype": "bf16",
	"combine_quant": "none", "placement": "even", "routing": "one",
	"seed": 1},
	"hosts": {"dispatch": {"algorithm": "hierarchy"},
		"combine": {"algorithm": "fullmesh"}},
	"dispatch_us": {"p50": $1}, "combine_us": {"p50": $2}}
	END
}

# predicted ALGORITHM PHASE [TIMES], in microseconds.
predicted() {
	python3 -c "import json
print(json.load(open('$work/json'))['$1']['$2']['total_us'] * ${3:-1})"
}

model_check() {
	python3 "$top/bench/model_check.py" --shunt "$shunt" "$@"
}

runs_over_hosts_are_held_against_the_model() {
	write_bench
	modelled --hosts 2 "${wire[@]}" --from "$work/bench" --cores 6
	write_run "$(predicted hierarchy dispatch)" \
		"$(predicted fullmesh combine 2)"
	expect 0 model_check --local "$work/bench" --runs "$work/run" \
		"${host[@]}" "${wire[@]}"
	grep -E '^\| none \| 4 \| 2 \| 3 \| hierarchy .*\(\+0 %\) .*\(-50 %\)' \
		"$work/out" >/dev/null || fail "$(cat "$work/out")"
	expect 1 model_check --local "$work/bench" --runs "$work/bench"
	says err "was not measured with --hosts"
	expect 2 model_check --runs "$work/run"
	says err "--local and --runs go together"
}

# write_boot NAME DISPATCH_US COMBINE_US: what tests/vm/model.sh leaves of a boot.
write_boot() {
	local boot=$work/$1

	mkdir -p "$boot"
	echo soft >"$boot/device"
	echo "${wire[*]}" >"$boot/wire"
	write_run "$2" "$3"
	cp "$work/run" "$boot/none-3-x.hosts"
	cp "$work/bench" "$boot/none-3.local"
}

boots_of_a_rig_are_held_against_the_model() {
	local dispatch combine

	write_bench
	expect 0 "$shunt" model "${tiny[@]}" --hosts 2 --from "$work/bench" \
		"${wire[@]}" --quiet --json "$work/json"
	dispatch=$(predicted hierarchy dispatch)
	combine=$(predicted fullmesh combine 2)
	# Medians of three boots.
	write_boot 1 "$dispatch" 1
	write_boot 2 99999 "$combine"
	write_boot 3 1 99999
	expect 0 model_check --boots "$work"/[123]
	says out "soft: ${wire[*]}"
	printf '| soft | none | 3 | hierarchy | %.0f (1 .. 99999) | %.0f (+0 %%) |' \
		"$dispatch" "$dispatch" >"$work/row"
	grep -F -f "$work/row" "$work/out" | grep -qF " (1 .. 99999) | $(
		printf %.0f "$(predicted fullmesh combine)") (-50 %)" ||
		fail "$(cat "$work/out")"
	rm "$work/2/wire"
	expect 1 model_check --boots "$work"/[123]
	says err "2/wire"
	expect 2 model_check --boots "$work/1" "${wire[@]}"
	says err "--boots: goes with --shunt only"
}

people_see_what_programs_read() {
	expect 0 "$shunt" model "${tiny[@]}" "${host[@]}" --hosts 2 "${wire[@]}"
	says out "a token has choices on 0.500 other hosts, 1.000 choices there"
	says out "2 queue pairs"
	says out "round trip: hierarchy "
	expect 1 "$shunt" model "${tiny[@]}" "${host[@]}" --json /nowhere/x
	says err "/nowhere/x"
}

# Every field and every constant, by its name.
the_document_names_all_that_there_is() {
	modelled --hosts 2 "${wire[@]}"
	python3 - "$work/json" "$top/docs/scale.md" <<-'END' >"$work/missing"
	import json, sys
	text = open(sys.argv[2], encoding="utf-8").read()
	def names(value):
	    for key, inner in value.items():
	        yield key
	        if isinstance(inner, dict) and key != "parameters":
	            yield from names(inner)
	for name in sorted(set(names(json.load(open(sys.argv[1]))))):
	    if f"`{name}`" not in text and f"--{name.replace('_', '-')}" not in text:
	        print(name)
	print("end")
	END
	[ "$(tail -n 1 "$work/missing")" = end ] || fail "docs/scale.md"
	[ "$(wc -l <"$work/missing")" = 1 ] ||
		fail "docs/scale.md lacks $(tr '\n' ' ' <"$work/missing")"
}

run_tests one_host_adds_up_as_by_hand few_tokens_take_one_phase \
	fullmesh_over_two_hosts_adds_up_as_by_hand \
	hierarchy_over_two_hosts_adds_up_as_by_hand \
	neighbours_go_at_once_as_far_as_a_piece \
	rdma_needs_add_up_as_by_hand ranks_that_share_cores_take_turns \
	a_quantized_way_home_costs_and_saves bytes_are_those_of_the_bench \
	constants_come_from_a_run_of_the_bench \
	a_run_that_does_not_fit_is_refused what_is_not_measured_must_be_given \
	runs_over_hosts_are_held_against_the_model \
	boots_of_a_rig_are_held_against_the_model \
	people_see_what_programs_read the_document_names_all_that_there_is \
	-- "$@"
