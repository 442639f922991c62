package classify

import "strings"

// Path is the qualified name of a kernel without return type, template arguments, parameters and anonymous namespaces.
func Path(name string) string { return pathOf(Whole(name)) }

// pathOf reads a demangled name from the left: the path is the last word before the parameters. It takes time linear in
// the length of the name.
func pathOf(name string) string {
	var last string // the last word that is complete
	var word []byte // the word under way
	for i := 0; i < len(name); {
		c := name[i]
		first := len(word) == 0 || strings.HasSuffix(string(word[max(0, len(word)-2):]), "::") // a component begins here
		switch {
		case c == ' ':
			if len(word) > 0 {
				last, word = string(word), word[:0]
			}
			i++
		case first && strings.IndexByte("(<{`", c) >= 0: // (anonymous namespace), <unnamed>, {lambda(int)#1}
			end := skip(name, i)
			if rest, ok := strings.CutPrefix(name[end:], "::"); ok {
				end = len(name) - len(rest)
			} else if c == '(' && len(word) == 0 && last != "" && last != "decltype" {
				return named(last) // a space stands before the parameters
			}
			i = end
		case c == '<' || c == '{' || c == '`' || c == '[' && !first: // [abi:cxx11]
			i = skip(name, i)
		case c == '(' && string(word) == "decltype": // a return type
			i = skip(name, i)
		case c == '(' && strings.HasPrefix(name[i:], "()") && strings.HasSuffix(string(word[max(0, len(word)-8):]), "operator"):
			word = append(word, "()"...)
			i += len("()")
		case c == '(':
			return named(string(word))
		case c == '>':
			i++
		default:
			word = append(word, c)
			i++
		}
	}
	if len(word) > 0 {
		last = string(word)
	}
	return named(last)
}

// closing says what ends the text that begins with a bracket.
var closing = map[byte]byte{'(': ')', '[': ']', '{': '}', '`': '\'', '<': '>'}

// signs hold an angle that opens and closes nothing after the word operator: f<&(n::operator<)>.
var signs = []string{"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"}

// skip is where the text ends that the bracket at i begins. Only brackets of that kind count in it, and, between angles,
// parentheses as a whole: the inner signs of f<(N > 0)> and f<(lambda at a.cu:1:2)> close nothing.
func skip(name string, i int) int {
	opens, closes, depth := name[i], closing[name[i]], 0
	for i < len(name) {
		switch c := name[i]; {
		case opens == '<' && c == '(':
			i = skip(name, i)
			continue
		case opens == '<' && strings.HasSuffix(name[:i], "operator") && sign(name[i:]) > 0:
			i += sign(name[i:])
			continue
		case opens == '<' && strings.HasPrefix(name[i:], "->"):
			i++
		case c == opens:
			depth++
		case c == closes:
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// sign is the length of the sign at the beginning of a text.
func sign(text string) int {
	for _, s := range signs {
		if strings.HasPrefix(text, s) {
			return len(s)
		}
	}
	return 0
}

// unnamed are the beginnings of what compilers call anonymous namespaces and files.
var unnamed = []string{"_GLOBAL__N", "_NV_ANON_NAMESPACE", "_INTERNAL_"}

// named is a path without its components that nobody named.
func named(path string) string {
	parts := strings.Split(path, "::")
	kept := parts[:0]
	for i, part := range parts {
		if part != "" && (i == len(parts)-1 || !isUnnamed(part)) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "::")
}

func isUnnamed(part string) bool {
	for _, prefix := range unnamed {
		if strings.HasPrefix(part, prefix) {
			return true
		}
	}
	return false
}
