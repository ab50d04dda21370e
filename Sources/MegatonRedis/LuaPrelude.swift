/// Functions in Lua that several scripts share.
///
/// Redis executes the whole source of a script at each call, so that each function of a prelude costs time even if
/// the script never calls it (about 0.1 µs of a call of 15). Therefore a script gets only those that it uses.
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
        for line in source.split(separator: "\n") where !line.trimmingPrefix(while: \.isWhitespace).hasPrefix("--") {
            if line.hasPrefix("local ") {
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
    private static let mark = "\n-- prelude:"

    /// A script with the definitions that it uses.
    ///
    /// - Parameter script: source of the script without the prelude. A name in a string counts as a use.
    package func completed(_ script: String) -> String {
        guard let mark = script.firstRange(of: Self.mark) else { return texts(definitions(for: script[...])) + script }
        let (start, rest) = (script[...mark.lowerBound], script[mark.upperBound...].drop { $0 != "\n" })
        let first = definitions(for: start)
        let names = Set(first.map(\.name))
        let second = definitions(for: rest).filter { !names.contains($0.name) }
        return texts(first) + start + texts(second) + rest.dropFirst()
    }

    private func texts(_ definitions: [Definition]) -> String { definitions.map(\.code).joined() }

    /// The definitions that a part of a script uses, directly or through others, in their order.
    private func definitions(for script: Substring) -> [Definition] {
        var used: Set<Substring> = []
        for line in script.split(separator: "\n") where !line.trimmingPrefix(while: \.isWhitespace).hasPrefix("--") {
            used.formUnion(Self.identifiers(in: line))
        }
        var included: [Definition] = []
        for definition in definitions.reversed() where used.contains(definition.name) {
            included.append(definition)
            used.formUnion(definition.identifiers)
        }
        return included.reversed()
    }

    /// The words of a line that may be names in Lua, in their order.
    private static func identifiers(in line: Substring) -> [Substring] {
        line.split { !($0 == "_" || $0.isASCII && ($0.isLetter || $0.isNumber)) }.filter { $0.first?.isNumber == false }
    }
}
