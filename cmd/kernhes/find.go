package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	errNoLibrary = errors.New("libkernhes.so was not found")
	errNoProbe   = errors.New("kernhes-probe was not found")
)

// findBeside gives the absolute path of a file: the given one, or that of this name beside this program, in ../lib or in
// ../lib/kernhes (packages).
func findBeside(given, name string, missing error) (string, error) {
	tries := []string{given}
	if given == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("where kernhes lies: %w", err)
		}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		folder := filepath.Dir(self)
		tries = []string{filepath.Join(folder, name), filepath.Join(folder, "..", "lib", name), filepath.Join(folder, "..", "lib", "kernhes", name)}
	}
	for _, path := range tries {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		if info, err := os.Stat(absolute); err == nil && info.Mode().IsRegular() {
			return absolute, nil
		}
	}
	return "", fmt.Errorf("%s: %w", strings.Join(tries, ", "), missing)
}

// cuptiFolders are where a libcupti may lie, from the one that belongs to the command on: in its Python environment,
// as PyTorch's packages bring it, and in the CUDA toolkit's.
func cuptiFolders(program string, lookup func(string) (string, bool)) []string {
	var folders []string
	python := func(prefix string) {
		for _, package_ := range []string{"cu13", "cuda_cupti"} {
			folders = append(folders, filepath.Join(prefix, "lib/python3*/site-packages/nvidia", package_, "lib"))
		}
		folders = append(folders, filepath.Join(prefix, "lib"))
	}
	if program != "" {
		python(filepath.Dir(filepath.Dir(program)))
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix, _ := lookup(name); prefix != "" {
			python(prefix)
		}
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if prefix, _ := lookup(name); prefix != "" {
			folders = append(folders, filepath.Join(prefix, "extras/CUPTI/lib64"), filepath.Join(prefix, "lib64"))
		}
	}
	return append(folders, "/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64",
		"/usr/local/cuda-1*/extras/CUPTI/lib64", "/usr/local/cuda-1*/lib64", "/usr/lib/*-linux-gnu")
}

// findCUPTI gives the path of a libcupti for a command, or "" if none is found: that of the first folder that has one,
// and there the newest.
func findCUPTI(program string, lookup func(string) (string, bool)) string {
	for _, folder := range cuptiFolders(program, lookup) {
		found, err := filepath.Glob(filepath.Join(folder, "libcupti.so.1[2-9]"))
		if err == nil && len(found) > 0 {
			return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
		}
	}
	return ""
}
