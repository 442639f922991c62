package books

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/books.md and WIRE.md anew")

// lossTable is the table of docs/books.md.
func lossTable() string {
	var b strings.Builder
	b.WriteString("| reason | counted by | meaning |\n| --- | --- | --- |\n")
	for _, r := range Reasons {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.By, r.Meaning)
	}
	return b.String()
}

// wireTable is the one of WIRE.md.
func wireTable() string {
	var b strings.Builder
	b.WriteString("| reason | name | meaning |\n| --- | --- | --- |\n")
	for _, r := range Reasons {
		if r.Wire != 0 {
			fmt.Fprintf(&b, "| %d | `%s` | %s |\n", r.Wire, r.Name, r.Meaning)
		}
	}
	return b.String()
}

func identityTable() string {
	var b strings.Builder
	b.WriteString("| identity | counts | |\n| --- | --- | --- |\n")
	for _, i := range Identities {
		fmt.Fprintf(&b, "| `%s` | `%s` = `%s` | %s |\n", i.Name, i.Of, strings.Join(i.Parts, "` + `"), i.Text)
	}
	return b.String()
}

func TestTablesAreDocumented(t *testing.T) {
	for path, tables := range map[string]map[string]string{
		"../../docs/books.md": {"losses": lossTable(), "identities": identityTable()},
		"../wire/WIRE.md":     {"reasons": wireTable()},
	} {
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		text := string(written)
		for name, table := range tables {
			begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
			before, rest, ok := strings.Cut(text, begin)
			require.True(t, ok, "%s has no %q", path, begin)
			_, after, ok := strings.Cut(rest, end)
			require.True(t, ok, "%s has no %q", path, end)
			text = before + begin + table + end + after
		}
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			continue
		}
		require.Equal(t, text, string(written), "%s is not what it is generated from: make golden", path)
	}
}

func TestEachNameIsOne(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons {
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		require.Equal(t, r.Wire != 0, r.By == Shim, r.Name)
		if r.Wire != 0 {
			require.Equal(t, r.Name, OnWire(r.Wire))
		}
	}
	require.Equal(t, Other, OnWire(99))
	require.NotContains(t, Received(), ArchiveLost)
	require.Len(t, Received(), len(Reasons)-1)
}

func TestResidues(t *testing.T) {
	c := Counts{KernelsReceived: 10, KernelsInSteps: 4, KernelsLate: 1, KernelsPending: 5}
	require.Equal(t, map[string]int64{OfKernels: 0}, Residues(c), "what an account does not count has no residue")
	c[KernelsDuplicate] = 3
	require.EqualValues(t, -3, Residues(c)[OfKernels])
	// A part that is forgotten shows in each identity.
	for i := range Identities {
		id := &Identities[i]
		c := Counts{id.Of: uint64(len(id.Parts))}
		for _, part := range id.Parts {
			c[part] = 1
		}
		require.Zero(t, id.Residue(c))
		for _, part := range id.Parts {
			without := Counts{id.Of: c[id.Of]}
			for name, n := range c {
				if name != part {
					without[name] = n
				}
			}
			require.EqualValues(t, 1, id.Residue(without), part)
		}
	}
}
