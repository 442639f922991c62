package parquet

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/schema.md anew")

const schemaFile = "../../docs/schema.md"

// TestSchemaIsDocumented holds the tables of docs/schema.md to the columns.
func TestSchemaIsDocumented(t *testing.T) {
	written, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	text := string(written)
	for _, table := range Tables {
		begin, end := fmt.Sprintf("<!-- columns of %s -->\n", table), fmt.Sprintf("<!-- end of %s -->", table)
		before, rest, ok := strings.Cut(text, begin)
		require.True(t, ok, "no table for %s", table)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, "no end of %s", table)
		var b strings.Builder
		b.WriteString("| column | type | null | |\n| --- | --- | --- | --- |\n")
		for _, c := range Columns(table) {
			null := c.Null
			if null == "" {
				null = "never"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, c.Type, null, c.Doc)
		}
		text = before + begin + b.String() + end + after
	}
	require.Contains(t, text, fmt.Sprintf("Schema version %d.", SchemaVersion))
	for _, key := range []string{KeySchemaVersion, KeyTable, KeyRuns, KeyRanks, KeyHosts, KeyModes, KeyRoll, KeyWindow, KeySources} {
		require.Contains(t, text, "`"+key+"`")
	}
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, []byte(text), 0o644))
		return
	}
	require.Equal(t, string(written), text, "docs/schema.md is not what the columns say: go test -update")
}
