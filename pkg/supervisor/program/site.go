package program

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// site is the directory whose files web serves. A directory in it has the page index.html.
type site struct {
	root *os.Root // symbolic links can't leave it
}

func openSite(directory string) (*site, error) {
	if directory == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	return &site{root}, nil
}

func (s *site) respond(r *request) response {
	if r.method != "GET" && r.method != "HEAD" {
		return response{code: 405, kind: plainText, body: "only GET and HEAD\n"}
	}
	asked, err := unescape(r.path())
	if err != nil {
		return response{code: 400, kind: plainText, body: err.Error() + "\n"}
	}
	name := path.Join(".", path.Clean("/"+asked))
	info, err := s.root.Stat(name)
	if err == nil && info.IsDir() {
		if !strings.HasSuffix(asked, "/") {
			return response{code: 301, kind: plainText, to: r.path() + "/"}
		}
		name = path.Join(name, "index.html")
		info, err = s.root.Stat(name)
	}
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
		err = fs.ErrNotExist
	}
	if err != nil {
		return failed(err)
	}
	f, err := s.root.Open(name)
	if err != nil {
		return failed(err)
	}
	return response{kind: typeOf(name), file: f, size: info.Size()}
}

// failed is the response for a file that can't be served. Its path on the machine is not shown.
func failed(err error) response {
	if errors.Is(err, fs.ErrPermission) {
		return response{code: 500, kind: plainText, body: "permission denied\n"}
	}
	return response{code: 404, kind: plainText, body: "not found\n"}
}

var errEscape = errors.New("the path has an invalid % escape")

// unescape decodes %XX in a path. Package net/url would initialise before the dispatch of container processes.
func unescape(p string) (string, error) {
	if !strings.Contains(p, "%") {
		return p, nil
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			b.WriteByte(p[i])
			continue
		}
		if i+2 >= len(p) {
			return "", errEscape
		}
		hi, lo := hex(p[i+1]), hex(p[i+2])
		if hi > 15 || lo > 15 || hi<<4|lo == 0 {
			return "", errEscape
		}
		b.WriteByte(hi<<4 | lo)
		i += 2
	}
	return b.String(), nil
}

// hex returns the value of a hexadecimal digit, 255 for another character.
func hex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}

// typeOf returns the type of a file by its name's extension.
func typeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".json", ".map":
		return jsonType
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".ico":
		return "image/x-icon"
	case ".woff2":
		return "font/woff2"
	case ".wasm":
		return "application/wasm"
	case ".pdf":
		return "application/pdf"
	case ".xml":
		return "text/xml; charset=utf-8"
	case ".txt", ".md", ".log", ".yaml", ".yml":
		return plainText
	}
	return "application/octet-stream"
}
