// Package english keeps kubectl's verbs from loading translations for users whose language is English. The verbs' package
// variables read texts while the program starts, and loading the English translation of these texts costs 20 ms of every
// start.
//
// It is initialised after kubectl's i18n, which it imports, and before the verbs, whose import paths sort behind its
// path. It then sets the loader of translations, as i18n documents.
package english

import (
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

var errSet = i18n.SetLoadTranslationsFunc(load)

// Set reports whether the loader was set before the first text was read.
func Set() bool { return errSet == nil }

// load loads the translations of the user's language, unless that is English or a language without translations.
func load() error {
	if !translated(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG")) {
		return nil
	}
	return i18n.LoadTranslations("kubectl", nil)
}

// languages are those that kubectl is translated into.
var languages = []string{"fr_FR", "zh_CN", "ja_JP", "zh_TW", "it_IT", "de_DE", "ko_KR", "pt_BR"}

// translated reports whether the first of the variables that is set names a language that kubectl is translated into.
func translated(variables ...string) bool {
	for _, v := range variables {
		if v == "" {
			continue
		}
		for _, l := range languages {
			if strings.HasPrefix(v, l+".") {
				return true
			}
		}
		return false
	}
	return false
}
