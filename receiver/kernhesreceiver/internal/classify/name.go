package classify

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Whole is a kernel's name as a person reads it: demangled if it was mangled. Of one that was cut short, and cannot be
// demangled for that, it is the path.
func Whole(name string) string {
	if strings.HasPrefix(name, "__nv_static_") { // of a static kernel: __nv_static_29__1a2b3c4d_4_a_cu_f__Z1fPi
		if i := strings.Index(name, "__Z"); i > 0 {
			name = name[i+1:]
		}
	}
	if !strings.HasPrefix(name, "_Z") {
		return name
	}
	if s, err := demangle.ToString(name, demangle.MaxLength(13)); err == nil { // 2^13 bytes: twice what the wire carries
		return s
	}
	return nested(name)
}

// nested reads the identifiers at the head of a mangled name, which stand there with their lengths before them
// (_ZN4vllm26cross_device_reduce_1stageI…, Itanium C++ ABI 5.1.2), and joins them to a path.
func nested(name string) string {
	rest := strings.TrimPrefix(name, "_Z")
	rest = strings.TrimPrefix(rest, "N")
	rest = strings.TrimLeft(rest, "rVKL") // qualifiers, internal linkage
	var parts []string
	for rest != "" && '1' <= rest[0] && rest[0] <= '9' {
		n := 0
		for rest != "" && '0' <= rest[0] && rest[0] <= '9' {
			n, rest = min(10*n+int(rest[0]-'0'), len(name)), rest[1:]
		}
		n = min(n, len(rest)) // it was cut within the identifier
		parts = append(parts, rest[:n])
		rest = strings.TrimPrefix(rest[n:], "L")
	}
	if parts == nil {
		return name
	}
	return named(strings.Join(parts, "::"))
}
