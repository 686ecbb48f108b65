package main

import (
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Where passwords are in text that an error or a driver may repeat.
var (
	urlPassword     = regexp.MustCompile(`(://[^/?#\s:@"']*:)[^\s"']*@`)
	fromEnvironment = regexp.MustCompile(`^://[^/?#\s:@"']*:\$\{[A-Z_]+\}@$`) // how our own advice shows one
	keywordPassword = regexp.MustCompile(`(?i)\b(password|passwd|sslpassword|pwd)=('[^']*'|[^\s&"',]+)`)
)

// redact returns s without the passwords of URLs and connection strings in it. Everything that leaves the program as text
// goes through it: errors, logs and JSON.
func redact(s string) string {
	s = urlPassword.ReplaceAllStringFunc(s, func(found string) string {
		if fromEnvironment.MatchString(found) {
			return found
		}
		return urlPassword.ReplaceAllString(found, "$1***@")
	})
	return keywordPassword.ReplaceAllString(s, "$1=***")
}

// redactAttr is redact for a log's attributes.
func redactAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, redact(v.String()))
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, redact(err.Error()))
		}
	}
	return a
}

// printable writes what a terminal would act on as it is written in Go: the stream chooses the names in an error.
func printable(line string) string {
	var b strings.Builder
	for _, r := range line {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}
