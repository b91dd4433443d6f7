package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed testdata/executors
var applications embed.FS

// application makes a folder with an application in each language, and the loops of examples/launchers that
// load it.
func application(p *program) string {
	folder := p.TempDir()
	files, err := fs.Sub(applications, "testdata/executors")
	p.must(err)
	p.must(os.CopyFS(folder, files))
	p.must(os.Mkdir(filepath.Join(folder, "classes"), 0o755))
	p.must(os.Setenv("BENCH_CLASSES", filepath.Join(folder, "classes"))) // for what is run by hand
	for i := range 50 {
		class := fmt.Sprintf("<?php\nfinal class Part%d\n{\n", i)
		for method := range 20 {
			class += fmt.Sprintf("    public function method%d(array $a): array { return array_map(static fn ($x) => [$x, %d], $a); }\n", method, method)
		}
		class += "    public static function load(): void {}\n}\n"
		p.must(os.WriteFile(filepath.Join(folder, "classes", fmt.Sprintf("Part%d.php", i)), []byte(class), 0o644))
	}
	for _, name := range []string{"fork.php", "pool.php", "fork.py", "pool.py", "pool.cjs"} {
		source, err := os.ReadFile(filepath.Join("..", "examples", "launchers", name))
		p.must(err)
		loads := map[string][4]string{
			".php": {"// require __DIR__ . '/vendor/autoload.php';\n", "require __DIR__ . '/app.php';\n", "/** Runs one job", "\n}\n"},
			".py":  {"# import application\n", "from app import run\n", "def run(job):", "return 0\n"},
			".cjs": {"// const application = require('./application');\n", "const { run } = require('./app.cjs');\n", "/** Runs one job", "\n}\n"},
		}[filepath.Ext(name)]
		loop := strings.Replace(string(source), loads[0], loads[1], 1)
		before, rest, found := strings.Cut(loop, loads[2])
		_, after, ends := strings.Cut(rest, loads[3])
		if !found || !ends || !strings.Contains(loop, loads[1]) {
			p.Fatalf("%s is not as it was: the application can't be put into it", name)
		}
		p.must(os.WriteFile(filepath.Join(folder, name), []byte(before+after), 0o644))
	}
	return folder
}
