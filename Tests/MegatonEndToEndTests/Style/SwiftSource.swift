import Foundation

/// A Swift file, read as far as the names of types go: the types that it declares, and the words in its code.
///
/// Comments and string literals are left out, except for the code in interpolations.
struct SwiftSource {
    /// A declared type, and the type or extension that it is declared in.
    struct Declaration: Hashable {
        let name: String
        let outer: String?
    }

    private(set) var declarations: Set<Declaration> = []
    /// Words that begin with an uppercase letter.
    private(set) var words: Set<String> = []
    /// Two such words with a dot between them, as in `ImageTask.Event`.
    private(set) var members: Set<String> = []

    private let bytes: [UInt8]
    private var position = 0
    private var level = 0
    /// The types around the current position, each with the level of its braces.
    private var types: [(level: Int, name: String)] = []
    /// A type whose opening brace is still to come.
    private var pending: String?
    /// The keyword of a declaration whose name is still to come.
    private var keyword: String?
    /// The word before a dot.
    private var owner: String?
    private var isAfterDot = false

    init(_ text: String) {
        bytes = Array(text.utf8)
        skipCode(toParenthesis: false)
    }

    private func has(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        return (0..<count).allSatisfy { bytes[position + $0] == text.utf8Start[$0] }
    }

    /// Reads to the end of the text, or to the closing parenthesis of an interpolation.
    private mutating func skipCode(toParenthesis isInterpolation: Bool) {
        var depth = 1
        while position < bytes.count {
            let byte = bytes[position]
            if has("//") {
                while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { position += 1 }
            } else if has("/*") {
                skipBlockComment()
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "#") {
                skipString()
            } else if Self.isWord(byte) {
                readWord()
            } else {
                position += 1
                if byte == UInt8(ascii: "(") { depth += 1 }
                if byte == UInt8(ascii: ")") { depth -= 1 }
                if isInterpolation, depth == 0 { return }
                if byte == UInt8(ascii: "{") { openBrace() }
                if byte == UInt8(ascii: "}") { closeBrace() }
                isAfterDot = byte == UInt8(ascii: ".")
            }
        }
    }

    private mutating func skipBlockComment() {
        var depth = 0
        repeat {
            if has("/*") {
                depth += 1
                position += 2
            } else if has("*/") {
                depth -= 1
                position += 2
            } else {
                position += 1
            }
        } while depth > 0 && position < bytes.count
    }

    /// Reads a literal with any number of `#`; or `#` alone, as in `#if`. A literal of one line ends at the latest with
    /// its line, so that a quotation mark in a regular expression does no harm beyond it.
    private mutating func skipString() {
        let hashes = bytes[position...].prefix { $0 == UInt8(ascii: "#") }.count
        position += hashes
        guard has("\"") else { return }
        let quotes = has("\"\"\"") ? 3 : 1
        position += quotes
        while position < bytes.count {
            if bytes[position] == UInt8(ascii: "\n"), quotes == 1 { return }
            if isEnd(quotes, hashes) {
                position += quotes + hashes
                return
            }
            guard bytes[position] == UInt8(ascii: "\\") else {
                position += 1
                continue
            }
            position += 1
            guard areHashes(hashes, at: position) else { continue }
            position += hashes
            let isInterpolation = has("(")
            position += 1
            if isInterpolation { skipCode(toParenthesis: true) }
        }
    }

    private func isEnd(_ quotes: Int, _ hashes: Int) -> Bool {
        (quotes == 3 ? has("\"\"\"") : has("\"")) && areHashes(hashes, at: position + quotes)
    }

    private func areHashes(_ count: Int, at start: Int) -> Bool {
        start + count <= bytes.count && bytes[start..<(start + count)].allSatisfy { $0 == UInt8(ascii: "#") }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...: true
        default: false
        }
    }

    private mutating func readWord() {
        let start = position
        while position < bytes.count, Self.isWord(bytes[position]) { position += 1 }
        let word = String(decoding: bytes[start..<position], as: UTF8.self)
        let isMember = isAfterDot
        isAfterDot = false
        if let keyword {
            declare(word, keyword)
        } else if let type = pending, isMember, type == owner {
            // `extension Outer.Inner`.
            pending = word
        } else if !isMember, Self.keywords.contains(word) {
            keyword = word
        }
        guard UInt8(ascii: "A")...UInt8(ascii: "Z") ~= bytes[start] else {
            owner = nil
            return
        }
        words.insert(word)
        if isMember, let owner { members.insert("\(owner).\(word)") }
        owner = word
    }

    private static let keywords: Set<String> = [
        "struct", "class", "enum", "actor", "protocol", "typealias", "extension",
    ]

    private mutating func declare(_ name: String, _ keyword: String) {
        self.keyword = nil
        // `class func` and the like.
        guard name.first?.isUppercase == true else { return }
        if keyword != "extension" { declarations.insert(Declaration(name: name, outer: types.last?.name)) }
        if keyword != "typealias" { pending = name }
    }

    private mutating func openBrace() {
        level += 1
        if let name = pending { types.append((level, name)) }
        pending = nil
    }

    private mutating func closeBrace() {
        if types.last?.level == level { types.removeLast() }
        level -= 1
    }
}
