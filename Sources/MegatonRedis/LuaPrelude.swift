/// Functions in Lua that several scripts share.
///
/// Redis executes the whole source of a script at each call, so that each function of a prelude costs time even if
/// the script never calls it (about 0.1 µs of a call of 15). Therefore a script gets only those that it uses.
///
/// Texts are read by bytes: each program does it when it starts, and by characters it took 15 ms.
///
/// They are in front of the script. A script that usually ends early has a comment line there that begins with
/// `-- prelude:`: the functions that only the code below uses follow that line. No local variable above it may have the
/// name of a library or of a function of the prelude.
package struct LuaPrelude: Sendable {
    /// A function or a constant with the lines of its code.
    private struct Definition {
        let name: Substring
        let code: String
        /// Identifiers in the code, among them the definitions that it uses.
        let identifiers: Set<Substring>
    }

    private let definitions: [Definition]

    /// Reads a prelude.
    ///
    /// - Parameter source: Lua code in which each definition begins with `local` or `local function` and one name, in
    ///   the first column, and uses only definitions above it. Lines of comment belong to none.
    package init(source: String) {
        var code: [[Substring]] = []
        for line in Self.lines(of: source[...]) {
            if line.utf8.starts(with: "local ".utf8) {
                code.append([line])
            } else if let last = code.indices.last {
                code[last].append(line)
            }
        }
        definitions = code.map { lines in
            let words = Self.identifiers(in: lines[0])
            let name = words.first { $0 != "local" && $0 != "function" } ?? ""
            return Definition(
                name: name,
                code: lines.joined(separator: "\n") + "\n",
                identifiers: lines.reduce(into: []) { $0.formUnion(Self.identifiers(in: $1)) }
            )
        }
    }

    /// Beginning of the line below which the functions are inserted that only the code there uses.
    private static let mark = "-- prelude:"

    /// A script with the definitions that it uses.
    ///
    /// - Parameter script: source of the script without the prelude. A name in a string counts as a use.
    package func completed(_ script: String) -> String {
        guard let mark = Self.lineOfMark(in: script) else { return texts(definitions(for: script[...])) + script }
        let (start, rest) = (script[..<mark.lowerBound], script[mark.upperBound...])
        let first = definitions(for: start)
        let names = Set(first.map(\.name))
        let second = definitions(for: rest).filter { !names.contains($0.name) }
        return texts(first) + start + texts(second) + rest
    }

    /// The line of the mark with its end; nil if the script has none after its first line.
    private static func lineOfMark(in script: String) -> Range<String.Index>? {
        let bytes = script.utf8
        var rest = bytes[...]
        while let end = rest.firstIndex(of: newline) {
            rest = rest[bytes.index(after: end)...]
            guard rest.starts(with: mark.utf8) else { continue }
            return rest.startIndex..<(rest.firstIndex(of: newline).map(bytes.index(after:)) ?? rest.endIndex)
        }
        return nil
    }

    private static let newline = UInt8(ascii: "\n")

    /// The lines of code that are neither empty nor a comment.
    private static func lines(of code: Substring) -> [Substring] {
        code.utf8.split(separator: newline).filter { line in
            !line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }.starts(with: "--".utf8)
        }.map(Substring.init)
    }

    private func texts(_ definitions: [Definition]) -> String { definitions.map(\.code).joined() }

    /// The definitions that a part of a script uses, directly or through others, in their order.
    private func definitions(for script: Substring) -> [Definition] {
        var used: Set<Substring> = []
        for line in Self.lines(of: script) { used.formUnion(Self.identifiers(in: line)) }
        var included: [Definition] = []
        for definition in definitions.reversed() where used.contains(definition.name) {
            included.append(definition)
            used.formUnion(definition.identifiers)
        }
        return included.reversed()
    }

    /// The words of a line that may be names in Lua, in their order.
    private static func identifiers(in line: Substring) -> [Substring] {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        let words = line.utf8.split { byte in
            !(byte == UInt8(ascii: "_") || digits.contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20))
        }
        return words.compactMap { word in
            word.first.map(digits.contains) == false ? Substring(word) : nil
        }
    }
}
