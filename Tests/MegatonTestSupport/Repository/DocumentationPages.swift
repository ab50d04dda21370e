import Foundation

/// The pages of the checkout that are not articles of a library: the README, those beside it, `docs` and `deploy`.
public enum DocumentationPages {
    /// A line of a page.
    public struct Line: Sendable {
        /// From 1.
        public let number: Int
        public let text: String
        /// Whether it is in a code block; the lines of the fences themselves are not.
        public let isCode: Bool
        /// The language of its code block, empty without one.
        public let language: String
    }

    /// Paths relative to the root of the checkout.
    public static let names: [String] =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md"]
        + Repository.files("docs").filter { $0.hasSuffix(".md") }

    public static func lines(of page: String) throws -> [Line] {
        var lines: [Line] = []
        var language: String?
        for (index, text) in try Repository.text(page).components(separatedBy: "\n").enumerated() {
            if text.hasPrefix("```") {
                language = language == nil ? String(text.dropFirst(3)) : nil
                continue
            }
            lines.append(Line(number: index + 1, text: text, isCode: language != nil, language: language ?? ""))
        }
        return lines
    }

    /// Text between backticks outside of code blocks, also if it goes over the end of a line.
    public static func codeSpans(of page: String) throws -> [String] {
        let text = try lines(of: page).filter { !$0.isCode }.map(\.text).joined(separator: " ")
        return text.components(separatedBy: "`").enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
    }

    /// A call of one of Megaton's programs.
    public struct Command: Sendable {
        /// Name of the program.
        public let program: String
        /// The words behind its name.
        public let arguments: [String]
    }

    /// Names of Megaton's programs.
    public static let programs = ["megaton", "megaton-bench"]

    /// Calls of Megaton's programs in shell blocks and between backticks.
    public static func commands(of page: String) throws -> [Command] {
        let blocks = try lines(of: page).filter { ["sh", "console"].contains($0.language) }.map(\.text)
            .joined(separator: "\n").replacingOccurrences(of: "\\\n", with: " ").components(separatedBy: "\n")
        let placeholders = CharacterSet(charactersIn: "[],")
        let names = programs + programs.map { "./scripts/\($0)" }
        let spans = try codeSpans(of: page).filter { span in names.contains { span.hasPrefix($0 + " ") } }
            .map { $0.components(separatedBy: placeholders).joined(separator: " ") }
        return (blocks + spans).compactMap { line -> Command? in
            let words = line.components(separatedBy: " #")[0].components(separatedBy: " ").filter { !$0.isEmpty }
            guard let program = words.firstIndex(where: names.contains) else { return nil }
            let arguments = words[(program + 1)...].prefix { !["|", "&", "&&", ";", ">"].contains($0) }
            // Elsewhere `megaton` is the name of a file or of a user.
            guard let first = arguments.first?.first, first.isLowercase else { return nil }
            let name = words[program].split(separator: "/").last.map(String.init) ?? ""
            return Command(program: name, arguments: Array(arguments))
        }
    }
}
