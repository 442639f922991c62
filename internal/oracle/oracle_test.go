package oracle

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

const recordings = "../../testdata/recordings/"

func load(t testing.TB, name string) *krec.Recording {
	t.Helper()
	r, err := krec.Read(recordings + name + ".krec.zst")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every key and every row of the expected figures, and no other.
func TestRecordings(t *testing.T) {
	for _, name := range []string{"solo.rank0", "tp2.rank0", "tp2.rank1"} {
		w := Do(load(t, name), NCCL)
		if len(w.Devices) != 1 {
			t.Fatalf("%s: %d devices, want 1", name, len(w.Devices))
		}
		got, err := json.Marshal(w.Devices[0])
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(recordings + name + ".expect.json")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, name, generic(t, got), generic(t, want))
		if f := w.Devices[0]; f.Invalid != 0 || f.Duplicates != 0 {
			t.Errorf("%s: %d invalid, %d duplicates, want none", name, f.Invalid, f.Duplicates)
		}
	}
}

// generic keeps numbers as their digits: float64 has too few for unix ns.
func generic(t *testing.T, b []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func compare(t *testing.T, name string, got, want map[string]any) {
	t.Helper()
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s is not among the expected figures", name, key)
		}
	}
	for key, w := range want {
		if rows, ok := w.([]any); ok && key == "steps" {
			mine, _ := got[key].([]any)
			if len(mine) != len(rows) {
				t.Errorf("%s: %d steps, want %d", name, len(mine), len(rows))
				continue
			}
			for i := range rows {
				if !reflect.DeepEqual(mine[i], rows[i]) {
					t.Errorf("%s: step %d: %v, want %v", name, i, mine[i], rows[i])
				}
			}
		} else if !reflect.DeepEqual(got[key], w) {
			t.Errorf("%s: %s: %v, want %v", name, key, got[key], w)
		}
	}
}
