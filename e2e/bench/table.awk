# Prints what `go test -bench` says as Markdown tables, one for each package. What is no benchmark's result, as a failure, goes to
# standard error.

# grouped writes a number with commas between thousands.
function grouped(n,    whole, rest) {
	split(n, part, ".")
	whole = part[1]
	rest = part[2] == "" ? "" : "." part[2]
	while (match(whole, /[0-9][0-9][0-9][0-9]($|,)/))
		whole = substr(whole, 1, RSTART) "," substr(whole, RSTART + 1)
	return whole rest
}

$1 == "pkg:" { package = $2; next }
$1 == "cpu:" { sub(/^cpu: */, ""); cpu = $0; next }
$1 == "goos:" || $1 == "goarch:" || $1 == "PASS" || $1 == "ok" || $1 == "?" { next }

/^Benchmark/ && $2 ~ /^[0-9]+$/ {
	if (package != last) {
		printf "\n`%s`%s\n\n| benchmark | ns/op | B/op | allocs/op | besides |\n|---|--:|--:|--:|---|\n", package, cpu == "" ? "" : " on " cpu
		last = package
	}
	name = $1
	sub(/^Benchmark/, "", name)
	sub(/-[0-9]+$/, "", name) # GOMAXPROCS
	of["ns/op"] = of["B/op"] = of["allocs/op"] = besides = ""
	for (i = 3; i < NF; i += 2) {
		if ($(i + 1) in of)
			of[$(i + 1)] = grouped($i)
		else
			besides = besides (besides == "" ? "" : ", ") grouped($i) " " $(i + 1)
	}
	printf "| %s | %s | %s | %s | %s |\n", name, of["ns/op"], of["B/op"], of["allocs/op"], besides
	fflush()
	next
}

NF { print >"/dev/stderr" }
