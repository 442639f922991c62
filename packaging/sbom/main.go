// Command sbom writes the bill of materials of built programs: which Go modules the linker put into them, and the
// licenses of these.
//
//	sbom -version V -time UNIX -bom FILE -licenses FILE -module DIR NAME=PROGRAM...
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of kernhes")
	at := flag.Int64("time", 0, "time of the release, unix seconds")
	bom := flag.String("bom", "", "where the bill of materials goes, CycloneDX 1.6 in JSON")
	licenses := flag.String("licenses", "", "where the texts of the licenses go")
	module := flag.String("module", ".", "folder of a Go module that knows where all other modules lie")
	flag.Parse()
	if err := run(*version, time.Unix(*at, 0).UTC(), *bom, *licenses, *module, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(version string, at time.Time, bom, licenses, module string, programs []string) error {
	modules, built, err := linked(programs)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(document(version, at, modules, built), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(bom, append(text, '\n'), 0o644); err != nil {
		return err
	}
	var all bytes.Buffer
	if err := writeLicenses(&all, module, modules); err != nil {
		return err
	}
	return os.WriteFile(licenses, all.Bytes(), 0o644)
}

// ours is the module whose license is in the package itself.
const ours = "github.com/kernhes/kernhes"

// linked are the modules of others in the programs, and which programs have a module, by path and version.
func linked(programs []string) (modules map[string]debug.Module, built map[string][]string, err error) {
	modules, built = map[string]debug.Module{}, map[string][]string{}
	for _, p := range programs {
		name, path, ok := strings.Cut(p, "=")
		if !ok {
			return nil, nil, fmt.Errorf("%q: want NAME=PROGRAM", p)
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		found := []*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
		for _, d := range append(found, info.Deps...) {
			if d.Replace != nil && !strings.HasPrefix(d.Path, ours) {
				d = d.Replace
			}
			if strings.HasPrefix(d.Path, ours) {
				continue
			}
			key := d.Path + "@" + d.Version
			modules[key] = *d
			built[name] = append(built[name], purl(*d))
		}
	}
	return modules, built, nil
}

func purl(m debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }

type (
	// A component is one of CycloneDX: https://cyclonedx.org/docs/1.6/json/#components
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// document is the bill of materials. It has no serial number, which would differ from build to build.
func document(version string, at time.Time, modules map[string]debug.Module, built map[string][]string) any {
	var components []component
	var dependencies []dependency
	for _, name := range slices.Sorted(maps.Keys(built)) {
		ref := name + "@" + version
		components = append(components, component{Type: "application", Ref: ref, Name: name, Version: version})
		slices.Sort(built[name])
		dependencies = append(dependencies, dependency{ref, built[name]})
	}
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		m := modules[key]
		c := component{Type: "library", Ref: purl(m), Name: m.Path, Version: m.Version, PURL: purl(m)}
		if m.Sum != "" {
			c.Properties = []property{{"cdx:go:sum", m.Sum}} // the hash in go.sum
		}
		components = append(components, c)
	}
	return struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     any          `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}{"CycloneDX", "1.6", 1, map[string]any{
		"timestamp": at.Format(time.RFC3339),
		"component": component{Type: "application", Ref: "kernhes", Name: "kernhes", Version: version},
	}, components, dependencies}
}

// writeLicenses writes each license text once, under the modules that have it.
func writeLicenses(to io.Writer, module string, modules map[string]debug.Module) error {
	byText := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		folder, err := folderOf(module, modules[key])
		if err != nil {
			return err
		}
		texts, err := licenseTexts(folder)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for _, text := range texts {
			byText[text] = append(byText[text], key)
		}
	}
	texts := slices.SortedFunc(maps.Keys(byText), func(a, b string) int { return strings.Compare(byText[a][0]+a, byText[b][0]+b) })
	for _, text := range texts {
		if _, err := fmt.Fprintf(to, "=== %s\n\n%s\n\n", strings.Join(byText[text], "\n=== "), strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

// folderOf is where the go command keeps a module's files.
func folderOf(module string, m debug.Module) (string, error) {
	args := []string{"list", "-m", "-f", "{{.Dir}}", m.Path + "@" + m.Version}
	if m.Path == "stdlib" {
		args = []string{"env", "GOROOT"}
	}
	command := exec.Command("go", args...)
	command.Dir, command.Stderr = module, os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s@%s: %w", m.Path, m.Version, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// licenseTexts are those at the top of a module, or above it where a repository has many modules.
func licenseTexts(folder string) (texts []string, err error) {
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "NOTICE*"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts = append(texts, string(text))
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("no license in " + folder)
	}
	return texts, nil
}
