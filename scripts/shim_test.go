package scripts_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shimParts are the folders of the shim's library, and which of them the files of each may include, besides its own.
var shimParts = map[string][]string{
	"entry":     {"capture", "transport", "host"}, // what the driver and NVTX call; coming and going
	"capture":   {"transport", "host"},            // what happens in the engine, turned into frames
	"transport": {"host"},                         // frames to the collector
	"host":      {},                               // the process that the shim is a guest in
}

var shimInclude = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// shimFaults tells which includes leave their way, and which files include each other in a circle. A .c file and its
// header are one file here: what one calls, the other declares.
func shimFaults(tree fs.FS, parts map[string][]string) (faults []string, err error) {
	units := map[string]map[string]bool{}
	for part := range parts {
		files, err := fs.Glob(tree, part+"/*.[ch]")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := fs.ReadFile(tree, file)
			if err != nil {
				return nil, err
			}
			unit := strings.TrimSuffix(file, path.Ext(file))
			if units[unit] == nil {
				units[unit] = map[string]bool{}
			}
			for _, m := range shimInclude.FindAllSubmatch(text, -1) {
				included := string(m[1])
				to := path.Dir(included)
				if _, known := parts[to]; !known || (to != part && !slices.Contains(parts[part], to)) {
					faults = append(faults, fmt.Sprintf("%s may not include %s", file, included))
				}
				units[unit][strings.TrimSuffix(included, ".h")] = true
			}
			delete(units[unit], unit)
		}
	}
	slices.Sort(faults)
	return append(faults, circles(units)...), nil
}

// circles gives the units that stand on each other: what is left when each that stands on none is taken away, and each
// that none stands on.
func circles(units map[string]map[string]bool) (left []string) {
	for before := -1; before != len(units); {
		before = len(units)
		stoodOn := map[string]bool{}
		for _, on := range units {
			maps.DeleteFunc(on, func(unit string, _ bool) bool { return units[unit] == nil })
			maps.Copy(stoodOn, on)
		}
		maps.DeleteFunc(units, func(unit string, on map[string]bool) bool { return len(on) == 0 || !stoodOn[unit] })
	}
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		left = append(left, fmt.Sprintf("%s is in a circle with %s", unit, strings.Join(slices.Sorted(maps.Keys(units[unit])), ", ")))
	}
	return left
}

func TestShimIncludesGoOneWay(t *testing.T) {
	faults, err := shimFaults(os.DirFS("../shim"), shimParts)
	require.NoError(t, err)
	assert.Empty(t, faults)
	for part := range shimParts {
		sources, err := fs.Glob(os.DirFS("../shim"), part+"/*.c")
		require.NoError(t, err)
		assert.NotEmpty(t, sources, "%s is empty", part)
	}
	stray, err := fs.Glob(os.DirFS("../shim"), "*.[ch]")
	require.NoError(t, err)
	assert.Empty(t, stray, "outside the folders")
}

func TestShimFaultsAreFound(t *testing.T) {
	parts := map[string][]string{"up": {"down"}, "down": {}}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		tree fstest.MapFS
		want []string
	}{
		"right": {fstest.MapFS{
			"up/a.c": file("#include \"up/a.h\"\n#include <stdio.h>\n"), "up/a.h": file("#include \"down/b.h\"\n"), "down/b.h": file(""),
		}, nil},
		"upwards": {fstest.MapFS{"up/a.h": file(""), "down/b.c": file("#include \"up/a.h\"\n")},
			[]string{"down/b.c may not include up/a.h"}},
		"elsewhere": {fstest.MapFS{"up/a.c": file("#include \"a.h\"\n")}, []string{"up/a.c may not include a.h"}},
		"a circle by a source file": {fstest.MapFS{
			"up/a.h": file(""), "up/a.c": file("#include \"up/b.h\"\n"), "up/b.h": file("#include \"up/c.h\"\n"), "up/b.c": file(""),
			"up/c.h": file(""), "up/c.c": file("#include \"up/a.h\"\n#include \"up/d.h\"\n"), "up/d.h": file(""),
			"up/e.c": file("#include \"up/a.h\"\n"),
		}, []string{"up/a is in a circle with up/b", "up/b is in a circle with up/c", "up/c is in a circle with up/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shimFaults(c.tree, parts)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}
