package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFaults(t *testing.T) {
	const text = `package x

const limit = 8

func f(a, b int) bool {
	if !done && a < limit {
		a += 2
		g(a)
	}
	return true
}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "x.go", text, 0)
	require.NoError(t, err)
	var got []string
	for _, f := range faultsOf("x.go", set, file, []byte(text)) {
		got = append(got, f.String())
		_, err := parser.ParseFile(token.NewFileSet(), "x.go", f.source(), 0)
		assert.NoError(t, err, f)
	}
	assert.ElementsMatch(t, []string{
		`x.go:6: "!" becomes ""`,
		`x.go:6: "&&" becomes "||"`,
		`x.go:6: "<" becomes "<="`,
		`x.go:7: "+=" becomes "-="`,
		`x.go:7: "2" becomes "(2 + 1)"`,
		`x.go:7: "a += 2" becomes "if false { a += 2 }"`,
		`x.go:8: "g(a)" becomes "if false { g(a) }"`,
		`x.go:10: "true" becomes "false"`,
	}, got)
}
