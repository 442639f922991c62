package duckdb_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/analysis/mcp"
)

// An agent talks to the server as any client of the protocol does.
func agent(t *testing.T, o mcp.Options) func(tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	server, err := mcp.Server(o).Connect(t.Context(), there, nil)
	require.NoError(t, err)
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		require.NoError(t, server.Wait())
	})
	return func(tool string, args map[string]any) (text string, failed bool) {
		t.Helper()
		r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		require.NoError(t, err)
		for _, c := range r.Content {
			text += c.(*sdk.TextContent).Text
		}
		return text, r.IsError
	}
}

func TestAnAgentFindsItsWay(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tp2", tp2(t, "tp2")...)
	write(t, dir, "solo", solo(t, "solo")...)
	ask := agent(t, mcp.Options{Dir: dir, MaxRows: 5, Timeout: time.Minute})

	text, _ := ask("runs", nil)
	assert.Contains(t, text, "tp2")
	assert.Contains(t, text, "solo")
	text, _ = ask("schema", nil)
	assert.Contains(t, text, "`foreign_compute_ns`")
	text, failed := ask("query", map[string]any{"run": "tp2", "sql": "select count(*) as n, count(distinct rank) as r from s"})
	assert.False(t, failed)
	assert.Contains(t, text, "378  2")
	text, _ = ask("query", map[string]any{"run": "tp2", "sql": "from k"})
	assert.Contains(t, text, "Only the first 5 rows.")
	text, _ = ask("named_query", map[string]any{"run": "tp2", "name": "findings"})
	assert.Contains(t, text, "foreign     1")
	text, _ = ask("explain_step", map[string]any{"run": "tp2", "seq": 71})
	assert.Contains(t, text, "foreign_ms")
	text, _ = ask("report", map[string]any{"run": "tp2"})
	assert.Contains(t, text, "- **foreign** Rank 1:")
}

func TestAnAgentOnlyReadsTheArchive(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "solo", solo(t, "solo")...)
	secret := filepath.Join(t.TempDir(), "secret.csv")
	require.NoError(t, os.WriteFile(secret, []byte("a\nhidden\n"), 0o600))
	out := filepath.Join(dir, "out.csv")
	ask := agent(t, mcp.Options{Dir: dir, MaxRows: 5, Timeout: time.Minute})
	for _, sql := range []string{
		"select * from read_csv('" + secret + "')", "copy (select 1) to '" + out + "'", "create table x as select 1", "attach 'y.db'",
		"install httpfs", "load httpfs", "set enable_external_access = true", "pragma enable_progress_bar", "select 1; select 2",
		"select 1; copy (select 1) to '" + out + "'", "drop view s", "",
		"copy (select 1) to '" + out + "'; select 1", `select "a'b"; copy (select 1) to '` + out + `'; select 'x'`,
		"select 1 -- it's\n; copy (select 1) to '" + out + "'; select 1", "select $$ ' $$; copy (select 1) to '" + out + "'; select 1",
		"select e'\\'; copy (select 1) to ' || '" + out + "'; select 1",
	} {
		text, failed := ask("query", map[string]any{"sql": sql})
		assert.True(t, failed, "%q: %s", sql, text)
		assert.NotContains(t, text, "hidden")
	}
	assert.NoFileExists(t, out)
	text, failed := ask("query", map[string]any{"sql": `select 'a;b' as "c;d";`})
	assert.False(t, failed, text)
	for _, name := range duck.Names() {
		text, failed := ask("named_query", map[string]any{"name": name})
		assert.False(t, failed, "%s: %s", name, text)
	}
	text, failed = ask("named_query", map[string]any{"name": "../../etc/passwd"})
	assert.True(t, failed, text)

	slow := agent(t, mcp.Options{Dir: dir, MaxRows: 5, Timeout: 300 * time.Millisecond})
	text, failed = slow("query", map[string]any{"sql": "select count(*) from range(1000000) a, range(1000000) b, range(1000) c"})
	assert.True(t, failed)
	assert.Contains(t, text, "took longer than 300ms")
}
