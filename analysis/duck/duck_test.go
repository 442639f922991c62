package duck

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// A table shows three places of a whole number, and of a fraction at most three.
func TestPlaces(t *testing.T) {
	row := []any{3.6, 0.0, 1.25, 0.0004, -1234.5678, 100.0, math.NaN(), math.Inf(1), int64(100)}
	want := []string{"3.6", "0.000", "1.25", "0.000", "-1234.568", "100.000", "NaN", "+Inf", "100"}
	table := Table{Columns: make([]string, len(row)), Rows: [][]any{row}}
	if got := strings.Fields(table.String()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
