/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/text: the files of a tokenizer's folder together. Expected ids are those of transformers 5.24 (AutoTokenizer, tokenizers 0.23.3) for
 * the same files; a folder that is refused is refused by file and key. Golden texts of tokenizer.json alone; saved folders give the same
 * ids wherever they lie.
 */
#include <check.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/text/tokenizer.h"
#include "tests/support/sanitize.h"
#include "tests/support/suite.h"

static yk_error err;
static yk__ids ids;

enum form { BERT_JSON, BERT_TXT, GPT2_JSON, GPT2_FILES };

/* Files of test data, of which tokenizer.json may be changed (find, replace), and the texts of those beside them. */
static const struct folder {
    enum form form;
    const char *config, *map, *added, *model; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json */
    const char *find, *replace;
    const char *text, *ids;
    const char *refused; /* words of the error */
    int most;            /* tokens; 0: all */
} folders[] = {
    {BERT_JSON, .find = "\"truncation\": null",
     .replace = "\"truncation\": {\"direction\": \"Left\", \"max_length\": 9, \"strategy\": \"LongestFirst\", \"stride\": 0}",
     .text = "Hello world the", .ids = "101 2088 1996 102", .most = 4},
    {GPT2_JSON, .find = "\"truncation\": null",
     .replace = "\"truncation\": {\"direction\": \"Left\", \"max_length\": 9, \"strategy\": \"LongestFirst\", \"stride\": 0}",
     .text = "Hello world", .ids = "995", .most = 1},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"truncation_side\":\"right\"}", .find = "\"truncation\": null",
     .replace = "\"truncation\": {\"direction\": \"Left\", \"max_length\": 9, \"strategy\": \"LongestFirst\", \"stride\": 0}",
     .text = "Hello world the", .ids = "101 7592 2088 102", .most = 4},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"truncation_side\":\"left\"}", .text = "Hello world the",
     .ids = "101 2088 1996 102", .most = 4},
    {BERT_JSON, .find = "\"padding\": null", .replace = "\"padding\": {\"direction\": \"Left\"}",
     .refused = "tokenizer.json: padding: direction 'Left'"},
    {BERT_JSON, .find = "\"truncation\": null", .replace = "\"truncation\": {\"direction\": \"Up\"}",
     .refused = "tokenizer.json: truncation: direction 'Up'"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"model_input_names\":[\"input_ids\",\"token_type_ids\"]}",
     .refused = "model_input_names 'without attention_mask'"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"model_input_names\":[\"input_ids\",\"attention_mask\"]}",
     .text = "Hello", .ids = "101 7592 102"},
    {BERT_JSON, .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT, .model = "{\"model_type\":\"bert\"}", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {GPT2_JSON, .text = "Hello world <new><|endoftext|> x", .ids = "15496 995 1279 3605 29 50256 2124"},
    {GPT2_FILES, .model = "{\"model_type\":\"gpt2\"}", .text = "Hello world <new><|endoftext|> x",
     .ids = "15496 995 1279 3605 29 50256 2124"},
    {BERT_TXT, .model = "{\"model_type\":\"gpt2\",\"tokenizer_class\":\"BertTokenizer\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 100 100 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 100 100 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"strip_accents\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"strip_accents\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"tokenize_chinese_chars\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 30281 1026 2047 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"tokenize_chinese_chars\":false}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 30281 1026 2047 1028 102"},
    {BERT_JSON,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_basic_tokenize\":false,\"never_split\":[\"Hello\"],\"model_max_length"
      "\":3,\"foo\":1}", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_basic_tokenize\":false,\"never_split\":[\"Hello\"],\"model_max_length"
      "\":3,\"foo\":1}", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"split_special_tokens\":true}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 1031 4895 2243 1033 1031 7308 1033 1781 1755 1026 2047 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"split_special_tokens\":true}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 1031 4895 2243 1033 1031 7308 1033 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"mask_token\":\"<new>\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"mask_token\":\"<new>\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 1031 7308 1033 1781 1755 30522 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":\"[unused2]\",\"sep_token\":\"[unused3]\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "3 7592 2088 1041 100 103 1781 1755 1026 2047 1028 4"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":\"[unused2]\",\"sep_token\":\"[unused3]\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "3 7592 2088 1041 100 103 1781 1755 1026 2047 1028 4"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[\"<new>\",\"hello\"]}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[\"<new>\",\"hello\"]}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":{\"image_token\":\"<new>\"}}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":{\"image_token\":\"<new>\"}}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"image_token\":\"<new>\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"image_token\":\"<new>\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 30522 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"unk_token\":\"[unused3]\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"unk_token\":\"[unused3]\"}",
     .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 1031 4895 2243 1033 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON,
     .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"do_lower_case\":false,\"cls_token\":\"[unused2]\",\"unk_token"
      "\":\"[unused3]\"}", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 7592 2088 1041 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"added_tokens_decoder\":{\"30522\":{\"content\": \"<new>\", \"lstrip"
      "\": false, \"rstrip\": true, \"normalized\": true, \"single_word\": false, \"special\": false},\"103\":{\"content"
      "\": \"[MASK]\", \"lstrip\": true, \"rstrip\": false, \"normalized\": false, \"single_word\": false, \"special"
      "\": true},\"7592\":{\"content\": \"hello\", \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"single_word"
      "\": true, \"special\": false}}}", .text = "hello shello hello hellos <new>  hello <NEW> h\303\251 [MASK] x  [MASK]",
     .ids = "101 7592 5806 2080 7592 7592 2015 30522 7592 30522 2002 103 1060 103 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .added = "{\"<new>\":30522}", .text = "a  [MASK] <new> <NEW>",
     .ids = "101 1037 103 30522 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\"}",
     .map = "{\"additional_special_tokens\":[\"<new>\"],\"mask_token\":{\"content\": \"[MASK]\", \"lstrip\": true, \"rstrip"
      "\": false, \"normalized\": false, \"single_word\": false, \"special\": false}}", .added = "{\"<new>\":30522}",
     .text = "a  [MASK] <new> <NEW>", .ids = "101 1037 103 30522 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":\"[unused3]\"}", .map = "{\"cls_token\":\"[unused2]\"}",
     .text = "hello", .ids = "3 7592 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .map = "{\"cls_token\":\"[unused2]\"}", .text = "hello",
     .ids = "101 7592 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}", .find = "\"lowercase\": true",
     .replace = "\"lowercase\": false", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 100 100 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .find = "\"lowercase\": true",
     .replace = "\"lowercase\": false", .text = "Hello WORLD \303\251 [UNK] [MASK] \345\214\227\344\272\254 <new>",
     .ids = "101 100 100 100 100 103 1781 1755 1026 2047 1028 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .find = "\"strip_accents\": null",
     .replace = "\"strip_accents\": false", .text = "hello \303\251", .ids = "101 7592 100 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .find = "\"ids\": [\n          101",
     .replace = "\"ids\": [\n          5,6", .text = "hello [PAD]", .ids = "5 6 7592 0 102"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .find = "\"max_input_chars_per_word\": 100",
     .replace = "\"max_input_chars_per_word\": 3", .text = "a hello", .ids = "101 1037 100 102"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}",
     .text = "Hello world <new><|endoftext|> x", .ids = "18435 995 1279 3605 29 50256 2124"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_prefix_space\":true}",
     .text = "Hello world <new><|endoftext|> x", .ids = "18435 995 1279 3605 29 50256 2124"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true}", .text = "Hello world <new><|endoftext|> x",
     .ids = "15496 995 1279 3605 29 50256 2124"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true}",
     .text = "Hello world <new><|endoftext|> x", .ids = "50256 15496 995 1279 3605 29 50256 2124"},
    {GPT2_JSON,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true,\"add_eos_token\":true,\"bos_token\":\"<s>\"}",
     .text = "Hello world <new><|endoftext|> x", .ids = "15496 995 1279 3605 29 50256 2124"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"add_bos_token\":true,\"add_eos_token\":true,\"bos_token\":\"<s>\"}",
     .text = "Hello world <new><|endoftext|> x", .ids = "50257 15496 995 1279 3605 29 50256 2124 50256"},
    {GPT2_JSON,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"pad_token\":\"[PAD]\",\"additional_special_tokens\":[\"<new>\",\"world\"]}",
     .text = "Hello world <new><|endoftext|> x", .ids = "15496 220 6894 220 50258 50256 2124"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"pad_token\":\"[PAD]\",\"additional_special_tokens\":[\"<new>\",\"world\"]}",
     .text = "Hello world <new><|endoftext|> x", .ids = "15496 220 6894 220 50258 50256 2124"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":null,\"errors\":\"strict\",\"trim_offsets\":false}",
     .text = "Hello world <new><|endoftext|> x", .ids = "15496 995 1279 3605 29 50256 2124"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":null,\"errors\":\"strict\",\"trim_offsets\":false}",
     .text = "Hello world <new><|endoftext|> x", .ids = "15496 995 1279 3605 29 50256 2124"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"eos_token\":{\"__type\":\"AddedToken\",\"content\":\"<|endoftext|>\",\"lstri"
      "p\":true,\"rstrip\":true,\"normalized\":true,\"single_word\":false}}", .text = "a <|endoftext|> b", .ids = "64 50256 65"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_prefix_space\":true}", .text = "Hello world",
     .ids = "15496 995"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .find = "\"add_prefix_space\": false",
     .replace = "\"add_prefix_space\": true", .text = "Hello world", .ids = "18435 995"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\"}", .added = "{\"<x>\":50258,\"<new>\":50257}",
     .text = "a <new> b <x>", .ids = "64 220 50257 275 220 50258"},
    {GPT2_JSON,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"added_tokens_decoder\":{\"50256\":{\"content\": \"<|endoftext|>"
      "\", \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"single_word\": false, \"special"
      "\": true},\"50257\":{\"content\": \"<new>\", \"lstrip\": true, \"rstrip\": false, \"normalized\": true, \"single_word"
      "\": false, \"special\": false}}}", .text = "a <new> b<|endoftext|>", .ids = "64 50257 275 50256"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .find = "\"lowercase\": true", .replace = "\"lowercase\": false",
     .refused = "normalizer.lowercase"},
    {BERT_JSON, .model = "{\"model_type\":\"bert\"}", .find = "\"lowercase\": true", .replace = "\"lowercase\": false",
     .refused = "normalizer.lowercase"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .find = "\"strip_accents\": null",
     .replace = "\"strip_accents\": false", .refused = "normalizer.strip_accents"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .find = "\"clean_text\": true",
     .replace = "\"clean_text\": false", .refused = "clean_text"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .find = "\"max_input_chars_per_word\": 100",
     .replace = "\"max_input_chars_per_word\": 3", .refused = "max_input_chars_per_word"},
    {BERT_JSON, .find = "\"max_input_chars_per_word\": 100", .replace = "\"max_input_chars_per_word\": 0",
     .refused = "max_input_chars_per_word"},
    {BERT_JSON, .find = "\"lowercase\": true", .replace = "\"lowercase\": \"no\"", .refused = "lowercase: expected true or false"},
    {BERT_JSON, .find = "\"lowercase\": true", .replace = "\"keep\": 1, \"lowercase\": true", .refused = "the key 'keep'"},
    {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\"}", .find = "\"ids\": [\n          101",
     .replace = "\"ids\": [\n          5,6", .refused = "post_processor"},
    {BERT_JSON, .find = "\"id\": 103", .replace = "\"id\": 7", .refused = "added_tokens"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\"}", .find = "\"add_prefix_space\": false",
     .replace = "\"add_prefix_space\": true", .refused = "add_prefix_space"},
    {GPT2_JSON, .find = "\"dropout\": null", .replace = "\"dropout\": 0.5", .refused = "dropout"},
    {GPT2_JSON, .find = "\"version\": \"1.0\"", .replace = "\"version\": \"2.0\"", .refused = "version"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"RobertaTokenizer\"}", .refused = "RobertaTokenizer' is not supported"},
    {GPT2_JSON, .model = "{\"model_type\":\"roberta\"}", .refused = "roberta' is not supported"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"RobertaTokenizer\"}", .refused = "RobertaTokenizer"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", .refused = "PreTrainedTokenizerFast"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"added_tokens_decoder\":{\"50300\":{\"content\": \"<new>\", \"lstrip"
      "\": false, \"rstrip\": false, \"normalized\": false, \"single_word\": false, \"special\": false}}}", .refused = "50300"},
    {GPT2_FILES, .added = "{\"<new>\":\"50257\"}", .refused = "added_tokens.json"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":\"no\"}",
     .refused = "do_lower_case: expected true or false"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"cls_token\":101}", .refused = "cls_token: expected a token"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"clean_text\":false}", .refused = "clean_text 'false'"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"padding_side\":\"left\"}", .refused = "padding_side 'left'"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"truncation_side\":\"up\"}", .refused = "truncation_side 'up'"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"fast_tokenizer_files\":[\"tokenizer.4.json\"]}",
     .refused = "fast_tokenizer_files"},
    {BERT_TXT, .map = "{\"foo\":1}", .refused = "special_tokens_map.json"},
    {BERT_TXT, .config = "[]", .refused = "expected an object"},
    {BERT_JSON,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"added_tokens_decoder\":{\"103\":{\"content\": \"[MASK]\", \"lstrip"
      "\": false, \"rstrip\": false, \"normalized\": false, \"single_word\": false, \"special\": true}}}",
     .find = "\"content\": \"[PAD]\"", .replace = "\"content\": \"<old>\"", .refused = "'<old>'"},
    /* order, repeats and flags of named tokens; special_tokens_map.json beside lists of the other file; names that the vocabulary lacks */
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":[\"<a>\"],\"image_token\":\"<b>\"}",
     .text = "<a> <b>", .ids = "101 30523 30522 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[\"<a>\"],\"extra_special_token"
      "s\":{\"boi_token\":\"<b>\"}}",
     .text = "<a> <b>", .ids = "101 30523 30522 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":{\"boi_token\":\"<b>\"},\"model_spec"
      "ific_special_tokens\":{\"image_token\":\"<a>\"}}",
     .text = "<a> <b>", .ids = "101 1026 1037 1028 30522 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":{\"boi_token\":\"<b>\"},\"image_toke"
      "n\":\"<a>\"}",
     .text = "<a> <b>", .ids = "101 30522 30523 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[]}",
     .map = "{\"additional_special_tokens\":[\"<a>\"]}",
     .text = "<a>", .ids = "101 1026 1037 1028 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\"}",
     .map = "{\"additional_special_tokens\":[\"<a>\"]}",
     .text = "<a>", .ids = "101 30522 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":[\"<a>\",{\"content\": \"<a>\", \"ls"
      "trip\": false, \"rstrip\": true, \"single_word\": false, \"normalized\": false, \"special\": false, "
      "\"__type\": \"AddedToken\"}]}",
     .text = "<a> x<a>b", .ids = "101 30522 1060 30522 1038 102"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"extra_special_tokens\":[\"<a>\",{\"content\": \"<a>\", \"ls"
      "trip\": false, \"rstrip\": true, \"single_word\": false, \"normalized\": false, \"special\": false, "
      "\"__type\": \"AddedToken\"}]}",
     .text = "<a> x<a>b", .ids = "50257 87 50257 65"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"extra_special_tokens\":[{\"content\": \"<a>\", \"lstrip\": "
      "false, \"rstrip\": true, \"single_word\": false, \"normalized\": false, \"special\": false, \"__type"
      "\": \"AddedToken\"},\"<a>\"]}",
     .text = "<a> x<a>b", .ids = "50257 2124 50257 65"},
    {GPT2_FILES,
     .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"pad_token\":{\"content\": \"<a>\", \"lstrip\": false, \"rst"
      "rip\": false, \"single_word\": false, \"normalized\": false, \"special\": false, \"__type\": \"Added"
      "Token\"},\"extra_special_tokens\":[{\"content\": \"<a>\", \"lstrip\": false, \"rstrip\": true, \"sin"
      "gle_word\": false, \"normalized\": false, \"special\": false, \"__type\": \"AddedToken\"}]}",
     .text = "<a> x<a>b", .ids = "50257 87 50257 65"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"split_special_tokens\":true,\"added_tokens_decoder\":{\"102"
      "\":{\"content\": \"[SEP]\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, \"normaliz"
      "ed\": false, \"special\": false}}}",
     .text = "x [SEP]", .ids = "101 1060 1031 19802 1033 102"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"split_special_tokens\":true,\"extra_special_tokens\":[{\"co"
      "ntent\": \"<a>\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, \"normalized\": fals"
      "e, \"special\": false, \"__type\": \"AddedToken\"}]}",
     .text = "<a> [SEP]", .ids = "101 30522 1031 19802 1033 102"},
    {GPT2_FILES, .config = "{\"tokenizer_class\":\"GPT2Tokenizer\",\"split_special_tokens\":true}",
     .added = "{\"<|endoftext|>\":50256}",
     .text = "a<|endoftext|>", .ids = "64 27 91 437 1659 5239 91 29"},
    {BERT_TXT,
     .config = "{\"tokenizer_class\":\"BertTokenizer\",\"mask_token\":{\"content\": \"Hello\", \"lstrip\": false, \""
      "rstrip\": false, \"single_word\": false, \"normalized\": true, \"special\": false, \"__type\": \"Add"
      "edToken\"}}",
     .added = "{\"Hello\":30522}",
     .text = "hello HELLO", .ids = "101 30522 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"extra_special_tokens\":[\"<a>\"]}",
     .find = "[MASK]\n", .replace = "[MASKED]\n",
     .text = "<a> [MASK]", .ids = "101 30523 30522 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"mask_token\":{\"__type\":\"AddedToken\",\"content\":\"Hello\"}}",
     .text = "hello HELLO", .ids = "101 7592 7592 102"},
    {BERT_TXT, .config = "{\"tokenizer_class\":\"BertTokenizer\"}",
     .map = "{\"mask_token\":{\"content\":\"Hello\"}}",
     .text = "hello HELLO Hello", .ids = "101 7592 7592 30522 102"},
    {BERT_TXT,
     .config = "{\"added_tokens_decoder\":{\"30522\":{\"content\":\"COVID\",\"normalized\":true},\"30523\":{\"content\":\"covid\","
      "\"normalized\":true}}}", .refused = "added tokens 'COVID' and 'covid' are one text once it is normalized"},
    /* a value of another type than transformers reads, or a key that is there twice */
    {BERT_TXT, .config = "{\"tokenizer_class\":5}",
     .refused = "tokenizer_config.json: tokenizer_class: expected a name, found an integer"},
    {BERT_TXT, .config = "{\"added_tokens_decoder\":[[]]}", .refused = "added_tokens_decoder: expected an object, found an array"},
    {BERT_TXT, .config = "{\"additional_special_tokens\":\"<x>\"}",
     .refused = "additional_special_tokens: expected a list or an object, found a string"},
    {BERT_TXT, .config = "{\"extra_special_tokens\":7}", .refused = "extra_special_tokens: expected a list or an object"},
    {BERT_TXT, .map = "{\"additional_special_tokens\":true}",
     .refused = "special_tokens_map.json: additional_special_tokens: expected a list or an object, found true"},
    {BERT_TXT, .config = "{\"model_specific_special_tokens\":[]}", .refused = "model_specific_special_tokens: expected an object"},
    {BERT_TXT, .config = "{\"model_input_names\":\"input_ids\"}", .refused = "model_input_names: expected a list, found a string"},
    {BERT_TXT, .config = "{\"truncation_side\":3}", .refused = "truncation_side: expected a name, found an integer"},
    {BERT_JSON, .find = "\"type_id\": 0", .replace = "\"type_id\": 1", .text = "Hello", .ids = "101 7592 102"},
    {BERT_JSON, .find = "\"type_id\": 1", .replace = "\"type_id\": true",
     .refused = "post_processor: type_id: expected a whole number from 0 to 1, found true"},
    {BERT_JSON, .find = "\"type_id\": 1", .replace = "\"type_id\": \"1\"", .refused = "type_id: expected a whole number from 0 to 1"},
    {BERT_JSON, .find = "\"type_id\": 1", .replace = "\"type_id\": 1.0", .refused = "found a number"},
    {BERT_JSON, .find = "\"type_id\": 1", .replace = "\"type_id\": -1", .refused = "type_id: expected a whole number from 0 to 1"},
    {BERT_JSON, .find = "\"type_id\": 1", .replace = "\"type_id\": null", .refused = "found null"},
    {BERT_JSON, .find = "\"pair\": [", .replace = "\"pair\": {}, \"special_tokens\": [",
     .refused = "post_processor: pair: expected a list, found an object"},
    {BERT_JSON, .find = "\"single\": [", .replace = "\"single\": \"[CLS] $A\", \"special_tokens\": [",
     .refused = "post_processor: single: expected a list, found a string"},
    {BERT_JSON, .find = "\"max_input_chars_per_word\": 100", .replace = "\"max_input_chars_per_word\": \"100\"",
     .refused = "model: max_input_chars_per_word: expected a whole number from 1 to 99999, found a string"},
    {BERT_JSON, .find = "\"unk_token\": \"[UNK]\"", .replace = "\"unk_token\": 100", .refused = "model: unk_token: expected a text"},
    {BERT_JSON, .find = "\"continuing_subword_prefix\": \"##\"", .replace = "\"continuing_subword_prefix\": false",
     .refused = "model: continuing_subword_prefix: expected a text, found false"},
    {BERT_JSON, .find = "\"version\": \"1.0\"", .replace = "\"version\": 2", .refused = "version: expected a text, found an integer"},
    {BERT_JSON, .find = "\"truncation\": null", .replace = "\"truncation\": 5",
     .refused = "truncation: expected an object, found an integer"},
    {BERT_JSON, .find = "\"padding\": null", .replace = "\"padding\": {\"direction\": 1}",
     .refused = "padding: direction: expected a text, found an integer"},
    {GPT2_JSON, .find = "\"dropout\": null", .replace = "\"dropout\": \"0.5\"", .refused = "dropout"},
    {GPT2_JSON, .find = "\"dropout\": null", .replace = "\"dropout\": true", .refused = "dropout"},
    {GPT2_JSON, .find = "\"merges\": [", .replace = "\"merges\": {}, \"unk_token\": [",
     .refused = "model: merges: expected a list, found an object"},
    {GPT2_JSON, .find = "\"end_of_word_suffix\": \"\"", .replace = "\"end_of_word_suffix\": 1",
     .refused = "model: end_of_word_suffix: expected a text"},
    {BERT_TXT, .model = "{\"model_type\":5}", .refused = "config.json: model_type: expected a text, found an integer"},
    {BERT_TXT, .model = "{\"tokenizer_class\":[\"BertTokenizer\"]}", .refused = "config.json: tokenizer_class: expected a text"},
    {BERT_TXT, .config = "{\"model_input_names\":[\"attention_mask\",5]}", .refused = "model_input_names 'an integer'"},
    /* a token that every text gets, and none is named */
    {GPT2_FILES, .config = "{\"add_bos_token\":true,\"bos_token\":null}", .refused = "tokenizer_config.json: add_bos_token is true"},
    {GPT2_FILES, .config = "{\"add_eos_token\":true,\"eos_token\":null}", .refused = "tokenizer_config.json: add_eos_token is true"},
    {BERT_TXT, .config = "{\"add_eos_token\":true}", .refused = "tokenizer_config.json: add_eos_token is true, and no eos_token"},
    {GPT2_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"add_bos_token\":true}",
     .refused = "tokenizer_config.json: add_bos_token is true"},
    {BERT_TXT, .config = "{\"do_lower_case\":true,\"do_lower_case\":false}",
     .refused = "tokenizer_config.json: line 1, column 37: not JSON: duplicate"},
    {BERT_TXT, .map = "{\"cls_token\":\"[CLS]\",\"cls_token\":\"[SEP]\"}",
     .refused = "special_tokens_map.json: line 1, column 32: not JSON: duplicate"},
    {BERT_TXT, .added = "{\"<x>\":30522,\"<x>\":30523}", .refused = "added_tokens.json: line 1, column 18: not JSON: duplicate"},
};
enum { N_FOLDERS = sizeof folders / sizeof folders[0] };

static char root[] = "/tmp/yoke-folders-XXXXXX";

static void text_write(const char *dir, const char *name, const char *text, size_t n)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* A copy of a file of the test data, with one change. */
static void file_write(const char *dir, const char *model, const char *name, const struct folder *x)
{
    char *text, *at;
    size_t n;
    ck_assert_msg(yk__text_open(suite_path(model, name), 0, &text, &n, &err) == YK_OK, "%s", err.text);
    at = x && x->find ? strstr(text, x->find) : NULL;
    ck_assert(!x || !x->find || at);
    if (at) {
        char *changed = yk__format("%.*s%s%s", (int)(at - text), text, x->replace, at + strlen(x->find));
        yk__free(text);
        text = changed;
    }
    text_write(dir, name, text, strlen(text));
    yk__free(text);
}

static void folder_write(const char *dir, const struct folder *x)
{
    static const char *const files[][3] = {{"models/bert-tiniest", "tokenizer.json", NULL},
                                           {"tokenizers/bert-base-uncased", "vocab.txt", NULL},
                                           {"models/fake-gpt2", "tokenizer.json", NULL},
                                           {"models/fake-gpt2", "vocab.json", "merges.txt"}};
    const char *const with[][2] = {{"tokenizer_config.json", x->config},
                                     {"special_tokens_map.json", x->map},
                                     {"added_tokens.json", x->added},
                                     {"config.json", x->model}};
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    for (int i = 1; i < 3 && files[x->form][i]; i++)
        file_write(dir, files[x->form][0], files[x->form][i], x);
    for (size_t i = 0; i < 4; i++)
        if (with[i][1])
            text_write(dir, with[i][0], with[i][1], strlen(with[i][1]));
}

static void folder_remove(const char *dir)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                        "vocab.txt",      "vocab.json",            "merges.txt",              "config.json"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(dir), 0);
}

static int most; /* tokens of a text; 0: all */

/* "1 2 3" of a text. */
static char *ids_of(const yk__tokenizer *t, const char *text)
{
    char *line = yk__strdup("");
    yk__encoder *e;
    ck_assert_int_eq(yk__encoder_new(t, &e, &err), YK_OK);
    ck_assert_msg(yk__encoder_encode(e, text, strlen(text), NULL, 0, 1, most, &ids, &err) == YK_OK, "%s", err.text);
    for (size_t i = 0; i < ids.count; i++) {
        char *longer = yk__format("%s%s%d", line, i ? " " : "", ids.id[i]);
        yk__free(line);
        line = longer;
    }
    yk__encoder_free(e);
    return line;
}

static void expect_ids(const yk__tokenizer *t, const char *text, const char *want, const char *dir)
{
    char *got = ids_of(t, text);
    ck_assert_msg(!strcmp(got, want), "%s: ids %s, transformers has %s", dir, got, want);
    yk__free(got);
}

static yk__tokenizer *open_folder(const char *dir, int lowercase)
{
    yk__tokenizer *t = NULL;
    ck_assert_msg(yk__tokenizer_open(dir, lowercase, &t, &err) == YK_OK, "%s", err.text);
    return t;
}

static void expect_refused(const char *dir, const char *words)
{
    yk__tokenizer *t = NULL;
    const yk_status s = yk__tokenizer_open(dir, -1, &t, &err);
    ck_assert_msg(s == YK_E_FORMAT || s == YK_E_UNSUPPORTED, "%s: status %d for \"%s\"", dir, s, words);
    ck_assert_msg(strstr(err.text, dir) && strstr(err.text, words), "%s, expected \"%s\"", err.text, words);
}

/* Saved, the tokenizer gives the same ids in a folder of another name, and again when that is saved, if `twice`. */
static void expect_saved(yk__tokenizer *t, const char *text, const char *want, const char *dir, bool twice)
{
    char to[64], again[64];
    yk__tokenizer *u;
    snprintf(to, sizeof to, "%s/bert-base-uncased", root);
    snprintf(again, sizeof again, "%s/bert-base-cased", root);
    ck_assert(!mkdir(to, 0700) && !mkdir(again, 0700));
    ck_assert_msg(yk__tokenizer_save(t, to, &err) == YK_OK, "%s", err.text);
    u = open_folder(to, -1);
    expect_ids(u, text, want, dir);
    if (twice) {
        ck_assert_msg(yk__tokenizer_save(u, again, &err) == YK_OK, "%s", err.text);
        yk__tokenizer_close(u);
        u = open_folder(again, -1);
        expect_ids(u, text, want, dir);
    }
    ck_assert(!yk__tokenizer_notes(u) || !strstr(yk__tokenizer_notes(u), "upper case"));
    yk__tokenizer_close(u);
    folder_remove(to);
    folder_remove(again);
}

/* saves: how often it is saved, at most 2. */
static void folder_try(const struct folder *x, const char *dir, int saves)
{
    yk__tokenizer *t;
    most = x->most;
    err = (yk_error)YK_ERROR_INIT;
    folder_write(dir, x);
    if (x->refused) {
        expect_refused(dir, x->refused);
    } else {
        t = open_folder(dir, -1);
        expect_ids(t, x->text, x->ids, dir);
        if (saves)
            expect_saved(t, x->text, x->ids, dir, saves == 2);
        yk__tokenizer_close(t);
    }
    folder_remove(dir);
}

/* A save writes a whole vocabulary. Each folder is saved, and every fifth of those that are not refused twice; the other ones are not saved
 * under ASan, as the plain build compares what is in them. Folders with an added token are saved twice, too. */
START_TEST(folders_are_read_as_transformers_reads_them)
{
    char dir[64];
    if (!suite_there("tokenizers") || !suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (int i = 0, accepted = 0; i < N_FOLDERS; i++) {
        accepted += !folders[i].refused;
        if (i % 4 != _i)
            continue;
        snprintf(dir, sizeof dir, "%s/%d", root, i);
        folder_try(&folders[i], dir, getenv("YOKE_TEST_LONG") || folders[i].added || accepted % 5 == 1 ? 2 : TEST_UNDER_ASAN ? 0 : 1);
    }
    rmdir(root);
    yk__ids_free(&ids);
}
END_TEST

/* An option decides, and the folder that is saved says so. */
START_TEST(an_option_is_saved)
{
    static const struct folder forms[] = {
        {BERT_TXT, .config = NULL},
        {BERT_TXT, .config = "{\"do_lower_case\":true,\"strip_accents\":null}"},
        {BERT_JSON, .config = NULL},
        {BERT_JSON, .config = "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}"},
        {BERT_JSON, .config = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true}"},
        {BERT_JSON, .model = "{\"model_type\":\"bert\"}", .find = "\"lowercase\": true", .replace = "\"lowercase\": false"}};
    char dir[64];
    if (!suite_there("tokenizers") || !suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(dir, sizeof dir, "%s/%zu", root, i);
        folder_write(dir, &forms[i]);
        yk__tokenizer *t = open_folder(dir, 0);
        expect_ids(t, "Hello WORLD hello", "101 100 100 7592 102", dir);
        expect_saved(t, "Hello WORLD hello", "101 100 100 7592 102", dir, i == 0);
        yk__tokenizer_close(t);
        t = open_folder(dir, 1);
        expect_ids(t, "Hello WORLD h\303\251llo", "101 7592 2088 7592 102", dir);
        expect_saved(t, "Hello WORLD h\303\251llo", "101 7592 2088 7592 102", dir, false);
        yk__tokenizer_close(t);
        folder_remove(dir);
    }
    rmdir(root);
    yk__ids_free(&ids);
}
END_TEST

/* Folders that Yoke saved before say less: they are read as they were. */
START_TEST(older_folders_of_ours_open)
{
    static const struct folder older[] = {
        {BERT_JSON, .model = "{\"model_type\":\"bert\",\"yoke_model\":\"bert\"}", .find = "\"lowercase\": true",
         .replace = "\"lowercase\": false", .text = "Hello hello", .ids = "101 100 7592 102"},
        {GPT2_JSON, .model = "{\"model_type\":\"bert\",\"yoke_model\":\"bert\"}", .text = "Hello world", .ids = "15496 995"},
        {BERT_TXT, .model = "{\"model_type\":\"gpt2\",\"yoke_model\":\"gpt2\"}", .text = "Hello", .ids = "101 7592 102"},
        {BERT_TXT, .model = "{\"model_type\":\"bert\",\"yoke_model\":\"bert\"}", .config = "{\"tokenizer_class\":\"BertTokenizer\"}",
         .find = "[MASK]\n", .replace = "[MASKED]\n", .text = "[MASK]", .ids = "101 1031 7308 1033 102"}};
    char dir[64];
    if (!suite_there("tokenizers") || !suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (size_t i = 0; i < sizeof older / sizeof older[0]; i++) {
        snprintf(dir, sizeof dir, "%s/%zu", root, i);
        folder_try(&older[i], dir, 2);
    }
    rmdir(root);
    yk__ids_free(&ids);
}
END_TEST

static void expect_note(const char *dir, int lowercase, const char *words)
{
    yk__tokenizer *t = open_folder(dir, lowercase);
    const char *notes = yk__tokenizer_notes(t);
    ck_assert_msg(words ? notes && strstr(notes, words) != NULL : !notes, "%s", notes ? notes : "(none)");
    yk__tokenizer_close(t);
}

START_TEST(what_the_files_leave_open_is_noted)
{
    static const struct folder bare = {BERT_TXT, .config = NULL}, said = {BERT_TXT, .config = "{\"do_lower_case\":true}"};
    static const struct folder odd = {BERT_TXT, .config = "{\"do_lower_case\":true,\"foo\":1}"};
    static const struct folder other = {BERT_JSON, .config = "{\"tokenizer_class\":\"FooTokenizer\"}"};
    char dir[64];
    if (!suite_there("tokenizers") || !suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/bert-base-chinese", root);
    folder_write(dir, &bare);
    expect_note(dir, -1, "no file says whether upper case counts");
    expect_note(dir, 0, NULL);
    folder_remove(dir);
    folder_write(dir, &said);
    expect_note(dir, -1, NULL);
    folder_remove(dir);
    folder_write(dir, &odd);
    expect_note(dir, -1, "the key 'foo' is not known");
    folder_remove(dir);
    folder_write(dir, &other);
    expect_note(dir, -1, "tokenizer.json is read as it stands");
    folder_remove(dir);
    rmdir(root);
}
END_TEST

static void text_try(yk__encoder *e, const json_t *text, const json_t *want, size_t length, const char *name, size_t i)
{
    const char *s = json_string_value(text);
    ck_assert_msg(yk__encoder_encode(e, s, json_string_length(text), NULL, 0, 1, length, &ids, &err) == YK_OK, "%s", err.text);
    ck_assert_msg(length ? json_array_size(want) >= ids.count : json_array_size(want) == ids.count, "%s: text %zu", name, i);
    for (size_t k = 0; k < json_array_size(want); k++)
        ck_assert_msg(json_integer_value(json_array_get(want, k)) == (k < ids.count ? ids.id[k] : 0), "%s: text %zu, id %zu", name, i, k);
}

/* Every text of golden/tokenizers, by the tokenizer.json of a folder; length: at which one of them cuts and pads. */
static void golden_try(const char *name, size_t length)
{
    char path[128], expected[128], *lines, *p;
    json_t *texts, *row;
    yk__tokenizer *t;
    yk__encoder *e;
    size_t n;
    snprintf(path, sizeof path, "golden/tokenizers/%s/tokenizer.json", name);
    snprintf(expected, sizeof expected, "golden/tokenizers/%s/expected.jsonl", name);
    t = open_folder(suite_path(path, ""), -1);
    ck_assert_int_eq(yk__encoder_new(t, &e, &err), YK_OK);
    ck_assert_int_eq(yk__json_load(suite_path("golden/tokenizers", "texts.json"), YK__JSON_ANY, &texts, &err), YK_OK);
    ck_assert_int_eq(yk__text_open(suite_path(expected, ""), 0, &lines, &n, &err), YK_OK);
    p = lines;
    for (size_t i = 0; i < json_array_size(texts); i++, p = strchr(p, '\n') + 1) {
        ck_assert_int_eq(yk__json_parse(name, p, strcspn(p, "\n"), YK__JSON_ANY, &row, &err), YK_OK);
        text_try(e, json_array_get(texts, i), json_object_get(row, "ids"), length, name, i);
        json_decref(row);
    }
    yk__free(lines);
    json_decref(texts);
    yk__encoder_free(e);
    yk__tokenizer_close(t);
}

static void golden_refuse(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "golden/tokenizers/%s/tokenizer.json", name);
    expect_refused(suite_path(path, ""), "tokenizer.json: ");
}

START_TEST(golden_texts_have_their_ids)
{
    static const char *const built[] = {"added_wordpiece", "bert_cased", "bert_uncased", "gpt2"};
    static const char *const refused[] = {"added_bytelevel", "albert", "clip", "deepseek", "digits_punctuation", "gemma", "llama2",
                                          "llama3",          "mistral", "o200k", "qwen2", "roberta", "t5"};
    if (!suite_there("golden/tokenizers"))
        return;
    for (size_t i = 0; i < sizeof built / sizeof built[0]; i++)
        golden_try(built[i], 0);
    golden_try("bert_with_padding", 12);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        golden_refuse(refused[i]);
    yk__ids_free(&ids);
}
END_TEST

START_TEST(bytes_and_characters_are_saved)
{
    yk__tokenizer *t;
    if (!mkdtemp(root))
        return;
    ck_assert_int_eq(yk__tokenizer_bytes(&t, &err), YK_OK);
    expect_saved(t, "a \303\251\t\n", "97 32 195 169 9 10", "bytes", true);
    yk__tokenizer_close(t);
    ck_assert_int_eq(yk__tokenizer_chars("t", "ba\n", 3, &t, &err), YK_OK);
    expect_saved(t, "ab\n", "1 2 0", "characters", true);
    yk__tokenizer_close(t);
    rmdir(root);
    yk__ids_free(&ids);
}
END_TEST

static yk__dataset *open_texts(const char *kind, const char *dir, double mask)
{
    char spec[128];
    yk__dataset *set = NULL;
    const yk__dataset_options o = {.tokenizer = dir, .unlabelled = !mask && *kind == 'l', .mask = mask, .seq_len = 2};
    snprintf(spec, sizeof spec, "%s:%s/texts", kind, root);
    err = (yk_error)YK_ERROR_INIT;
    return yk__dataset_open(spec, &o, &set, &err) ? NULL : set;
}

static void expect_segments(const char *dir, const int32_t *want)
{
    const yk__loader_batch *b = NULL;
    yk__loader *l = NULL;
    yk__dataset *set = open_texts("lines", dir, 0);
    ck_assert_msg(set && !yk__loader_open(set, &(yk__loader_options){.global_batch = 2}, &l, &err), "%s", err.text);
    ck_assert_msg(!yk__loader_next(l, &b, &err) && b && b->width == 5, "%s", err.text);
    ck_assert(!memcmp(b->field[2], want, 10 * sizeof *want));
    yk__loader_close(l);
    yk__dataset_close(set);
}

/* Padding has segment 0, too. */
START_TEST(segments_of_a_single_text_are_fed)
{
    static const struct {
        const char *find, *replace;
        int32_t want[10];
    } cases[] = {{NULL, NULL, {0}},
                 {"\"type_id\": 0", "\"type_id\": 1", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
                 {"\"A\",\n          \"type_id\": 0", "\"A\", \"type_id\": 1", {0, 1, 0, 0, 0, 0, 1, 1, 1, 0}}};
    static const char texts[] = "hello\nhello world the\n";
    char dir[64], to[64];
    if (!suite_there("models"))
        return;
    ck_assert_ptr_nonnull(mkdtemp(root));
    text_write(root, "texts", texts, strlen(texts));
    snprintf(dir, sizeof dir, "%s/bert", root);
    snprintf(to, sizeof to, "%s/saved", root);
    for (int i = 0; i < 3; i++) {
        folder_write(dir, &(struct folder){BERT_JSON, .find = cases[i].find, .replace = cases[i].replace});
        yk__tokenizer *t = open_folder(dir, -1);
        ck_assert(!mkdir(to, 0700));
        ck_assert_msg(yk__tokenizer_save(t, to, &err) == YK_OK, "%s", err.text);
        yk__tokenizer_close(t);
        expect_segments(dir, cases[i].want);
        expect_segments(to, cases[i].want);
        yk__dataset *plain = open_texts("text", dir, 0);
        ck_assert_msg(plain != NULL, "%s", err.text);
        yk__dataset_close(plain);
        yk__dataset *masked = open_texts("text", dir, 0.15); /* of BERT, whose windows have no segments */
        ck_assert_msg(i < 2 ? masked != NULL : !masked && strstr(err.text, "write 0 there"), "%d: %s", i, err.text);
        yk__dataset_close(masked);
        folder_remove(to);
        folder_remove(dir);
    }
    snprintf(dir, sizeof dir, "%s/texts", root);
    ck_assert(!unlink(dir) && !rmdir(root));
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("folders");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, folders_are_read_as_transformers_reads_them, 0, 4);
    tcase_add_test(t, an_option_is_saved);
    tcase_add_test(t, older_folders_of_ours_open);
    tcase_add_test(t, what_the_files_leave_open_is_noted);
    tcase_add_test(t, golden_texts_have_their_ids);
    tcase_add_test(t, bytes_and_characters_are_saved);
    tcase_add_test(t, segments_of_a_single_text_are_fed);
    return suite_run("folders", t);
}
