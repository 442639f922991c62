package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var errNoWheel = errors.New("kernhes-*.whl was not found")

// engines are those that --engine knows, each with the variable that limits which plugins it loads; "": it loads none.
var engines = map[string]string{"vllm": "VLLM_PLUGINS", "sglang": "SGLANG_PLUGINS", "tensorrt-llm": ""}

// engineNames are the engines, for messages.
func engineNames() string { return strings.Join(slices.Sorted(maps.Keys(engines)), ", ") }

// findWheel gives the absolute path of the Python package: the given one, or the newest beside this program, in
// ../lib or in ../lib/kernhes (packages).
func findWheel(given string) (string, error) {
	if given != "" {
		return findBeside(given, "", errNoWheel)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("where kernhes lies: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return newestWheel(filepath.Dir(self), filepath.Join(filepath.Dir(self), "..", "lib"), filepath.Join(filepath.Dir(self), "..", "lib", "kernhes"))
}

// newestWheel gives the last wheel by name in the first of the folders that has one.
func newestWheel(folders ...string) (string, error) {
	for _, folder := range folders {
		if found, err := filepath.Glob(filepath.Join(folder, "kernhes-*-py3-none-any.whl")); err == nil && len(found) > 0 {
			return filepath.Abs(slices.MaxFunc(found, cmp.Compare))
		}
	}
	return "", fmt.Errorf("%s: %w", strings.Join(folders, ", "), errNoWheel)
}

// engineVariables are the variables that give an engine its hook: the wheel on Python's path, where the engine finds the plugin by
// its entry point, and the plugin among those that it may load, if the user names some.
func engineVariables(engine, wheel string, lookup func(string) (string, bool)) []string {
	var set []string
	if name, _ := lookup("KERNHES_ENGINE"); name == "" {
		set = append(set, "KERNHES_ENGINE="+engine)
	}
	filter := engines[engine]
	if filter == "" {
		return set
	}
	path, _ := lookup("PYTHONPATH")
	set = append(set, "PYTHONPATH="+strings.TrimSuffix(wheel+":"+path, ":"))
	// Set to nothing, it is as unset to SGLang, while vLLM then loads none.
	if allowed, is := lookup(filter); is && (allowed != "" || engine == "vllm") && !slices.Contains(strings.Split(allowed, ","), "kernhes") {
		set = append(set, filter+"="+strings.TrimPrefix(allowed+",kernhes", ","))
	}
	return set
}
