import Foundation
import MegatonTestSupport
import Testing

/// Swift code in the articles and the pages beside them is code that is compiled.
@Suite struct DocumentationTests {
    /// A code block of an article.
    struct Snippet: Sendable, CustomTestStringConvertible {
        let article: String
        let line: Int
        let code: [String]

        var testDescription: String { "\(article):\(line)" }
    }

    /// A comment on the line before a code block that is not compiled; the reason follows.
    private static let exception = "<!-- not compiled: "

    private static let articles =
        DocumentationPages.names
        + Repository.files("Sources").filter { $0.contains("/Documentation.docc/") && $0.hasSuffix(".md") }

    /// Swift code blocks without an exception.
    private static let snippets: [Snippet] = articles.flatMap { article in
        (try? snippets(of: Repository.text(article), article)) ?? []
    }

    private static func snippets(of text: String, _ article: String) -> [Snippet] {
        var found: [Snippet] = []
        var open: Snippet?
        var isException = false
        for (number, line) in lines(text).enumerated() {
            if let snippet = open {
                if line == "```" {
                    found.append(snippet)
                    open = nil
                } else {
                    open = Snippet(article: article, line: snippet.line, code: snippet.code + [line])
                }
            } else if line == "```swift" && !isException {
                open = Snippet(article: article, line: number + 1, code: [])
            }
            isException = line.hasPrefix(exception) && line.hasSuffix(" -->")
        }
        // A block without an end is a mistake; returned as a snippet, it fails the test.
        return found + (open.map { [$0] } ?? [])
    }

    /// The lines without their indentation.
    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: .whitespaces)
        }
    }

    private static let compiled: [[String]] = ["Tests", "Sources", "Examples"]
        .flatMap(Repository.swiftFiles)
        .compactMap { try? lines(Repository.text($0)) }

    @Test(arguments: snippets) func aSnippetIsCompiled(_ snippet: Snippet) {
        let isThere = Self.compiled.contains { file in
            file.indices.contains { file[$0...].starts(with: snippet.code) }
        }
        #expect(!snippet.code.isEmpty)
        #expect(
            isThere,
            """
            \(snippet.testDescription): no file beneath Tests, Sources or Examples has these lines. Put them into a test, or \
            write "\(Self.exception)why -->" on the line before the block.
            """
        )
    }

    @Test func thereAreArticlesAndSnippets() {
        #expect(Self.articles.count >= 3 && Self.snippets.count >= 5)
    }

    @Test func blocksAndExceptionsAreRecognized() {
        let text = "a\n```swift\n  let a = 1\n```\n<!-- not compiled: b -->\n```swift\nb\n```\n```\nc\n```\n```swift\nd"
        let found = Self.snippets(of: text, "x.md")
        #expect(found.map(\.code) == [["let a = 1"], ["d"]] && found.map(\.line) == [2, 12])
    }
}
