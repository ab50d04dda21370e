internal import Foundation
internal import MegatonCore
internal import MegatonPipeline

extension OutputTemplate {
    /// A value of the job or of its result that stands in the path.
    package enum Placeholder: Sendable, Hashable {
        case path, stem, name, ext, host, hash, width, height, id
        case label(String)

        private static let plain: [String: Placeholder] = [
            "path": .path, "stem": .stem, "name": .name, "ext": .ext, "host": .host, "hash": .hash, "width": .width,
            "height": .height, "id": .id,
        ]
        private static let labelPrefix = "label."

        /// - Parameter text: the text between the braces.
        package init?(_ text: Substring) {
            let label = text.utf8.dropFirst(Self.labelPrefix.utf8.count)
            if !label.isEmpty, text.utf8.starts(with: Self.labelPrefix.utf8) {
                self = .label(String(Substring(label)))
                return
            }
            guard let plain = Self.plain[String(text)] else { return nil }
            self = plain
        }

        /// All of them, for a message.
        static let known = (plain.keys + ["\(labelPrefix)NAME"]).sorted().map { "{\($0)}" }.joined(separator: " ")

        /// Whether only the rendition decides the value.
        package var isOfRendition: Bool { [.name, .ext, .width, .height].contains(self) }

        /// The placeholder as it is written.
        package var written: String {
            if case .label(let label) = self { return "{\(Self.labelPrefix)\(label)}" }
            return "{\(self)}"
        }
    }

    /// A part of the path.
    package enum Part: Sendable, Hashable {
        case text(String)
        case placeholder(Placeholder)

        /// Reads the parts of a template, by its bytes: jobs of a list may have a template each.
        ///
        /// - Parameters:
        ///   - subject: name of the template in messages.
        ///   - decoding: returns a text between placeholders as it stands in the path.
        /// - Throws: `JobError` for a brace without its counterpart, an unknown placeholder, and a parent directory.
        package static func parts(
            of text: Substring,
            in subject: String,
            decoding: (Substring) throws(JobError) -> String = { String($0) }
        ) throws(JobError) -> [Part] {
            var parts: [Part] = []
            var rest = text
            while let open = rest.utf8.firstIndex(of: UInt8(ascii: "{")) {
                guard let close = rest.utf8[open...].firstIndex(of: UInt8(ascii: "}")) else {
                    throw JobError("\(subject) has a \"{\" without its \"}\"")
                }
                let name = rest[rest.utf8.index(after: open)..<close]
                guard let placeholder = Placeholder(name) else {
                    throw JobError("\(subject) has an unknown placeholder {\(name)}; known are \(Placeholder.known)")
                }
                parts += [.text(try decoding(rest[..<open])), .placeholder(placeholder)]
                rest = rest[rest.utf8.index(after: close)...]
            }
            parts.append(.text(try decoding(rest)))
            let hasParent = parts.contains { part in
                if case .text(let text) = part { text.hasParentComponent } else { false }
            }
            if hasParent { throw JobError("\(subject) must not contain \"..\"") }
            return parts
        }
    }
}

extension [OutputTemplate.Part] {
    /// Whether the path depends on the size of the result.
    package var usesSize: Bool { contains(.placeholder(.width)) || contains(.placeholder(.height)) }

    /// Names of the labels that stand in the path.
    package var labels: [String] {
        compactMap { part in
            if case .placeholder(.label(let label)) = part { label } else { nil }
        }
    }

    /// Whether sources may have paths of their own.
    package var dependsOnSource: Bool {
        contains { part in
            if case .placeholder(let placeholder) = part { !placeholder.isOfRendition } else { false }
        }
    }

    /// Whether each rendition has a path of its own. Assumed if the paths depend on sizes, which only the worker knows.
    ///
    /// - Parameter renditions: with names of their own.
    package func distinguishes(_ renditions: [Rendition]) -> Bool {
        if renditions.count < 2 || contains(.placeholder(.name)) || usesSize { return true }
        guard contains(.placeholder(.ext)) else { return false }
        return Set(renditions.map(\.format.fileExtension)).count == renditions.count
    }
}
