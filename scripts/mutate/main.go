// Command mutate draws small faults at random over Go files and says which of them the tests notice.
//
//	go run ./scripts/mutate -seed 1 -n 60 [-also PACKAGE] FILE-OR-FOLDER...
//
// A fault lives in an overlay of the go command, so that the tree is never changed. A fault is caught if the tests of its
// package fail, or those of the packages that -also names and that import it. Faults that do not compile are drawn anew.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// timeout is for the tests of one package: a fault that makes them hang is caught.
const timeout = 3 * time.Minute

func main() {
	seed := flag.Uint64("seed", 1, "of the draw")
	n := flag.Int("n", 60, "faults")
	from := flag.Int("from", 0, "the first one that runs: a long draw can be run in pieces")
	to := flag.Int("to", 1<<30, "the first one that does not")
	also := flag.String("also", "", "packages whose short tests may notice what the faulty package's own do not, separated by commas")
	flag.Parse()
	if err := run(*seed, *n, *from, *to, strings.FieldsFunc(*also, func(r rune) bool { return r == ',' }), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(seed uint64, n, from, to int, also, folders []string) error {
	var all []fault
	for _, folder := range folders {
		found, err := faultsBelow(folder)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if len(all) < n {
		return fmt.Errorf("%d places for a fault, want %d", len(all), n)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Printf("seed %d: %d of %d places\n", seed, n, len(all))
	caught, ran := 0, 0
	for i := range min(n, to) {
		if i < from {
			continue
		}
		verdict, err := try(&all[i], also)
		if err != nil {
			return err
		}
		fmt.Printf("%3d %-9s %s\n", i, verdict, all[i])
		if verdict == invalid {
			continue
		}
		ran++
		if verdict != survived {
			caught++
		}
	}
	fmt.Printf("%d of %d caught\n", caught, ran)
	return nil
}

// What becomes of a fault.
const (
	survived = "SURVIVED"
	invalid  = "invalid" // does not compile
)

// try runs the tests over a fault.
func try(f *fault, also []string) (verdict string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	faulty, overlay := filepath.Join(dir, "faulty.go"), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(f.file)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: faulty}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(faulty, f.source(), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	own := "./" + filepath.Dir(f.file)
	if out, err := goTool("build", "-overlay", overlay, own); err != nil {
		if len(out) == 0 {
			return "", err
		}
		return invalid, nil
	}
	if fails(overlay, own, "-short") || fails(overlay, own) {
		return "caught", nil
	}
	for _, p := range also {
		if imports(p, own) && fails(overlay, p, "-short") {
			return "by " + filepath.Base(p), nil
		}
	}
	return survived, nil
}

// fails reports whether the tests of a package do.
func fails(overlay, p string, flags ...string) bool {
	args := append([]string{"test", "-vet=off", "-failfast", "-overlay", overlay, "-timeout", timeout.String()}, flags...)
	_, err := goTool(append(args, p)...)
	return err != nil
}

// imports reports whether a package's tests rest on another package.
func imports(p, other string) bool {
	if p == other {
		return false
	}
	deps, err := goTool("list", "-deps", "-test", p)
	name, errName := goTool("list", other)
	return err == nil && errName == nil && bytes.Contains(append([]byte("\n"), deps...), append([]byte("\n"), name...))
}

// goTool runs the go command, and kills it if a test binary outlives its own timeout.
func goTool(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	return exec.CommandContext(ctx, "go", args...).CombinedOutput()
}
