internal import Foundation

/// Reads the tags and attributes of an SVG (XML 1.0 sections 2 and 3), and refuses markup that exceeds `SVGBounds`.
/// Each step consumes at least one byte.
struct SVGWalk {
    struct Refusal: Error {
        let text: String
    }

    private let bytes: UnsafeRawBufferPointer
    private var index = 0
    private var count = 0
    /// Open elements: the reference node of each, and its depths of layers and of elements within that node.
    private var open = [(node: 0, layers: 0, elements: 0)]
    /// Depth of the open `style` element; nil outside of one.
    private var styleDepth: Int?
    /// Depth of the open `text` element; nil outside of one.
    private var textDepth: Int?
    /// Bytes of text in the open `text` element.
    private var textBytes = 0
    private var references = SVGReferences()
    /// The same, as if each element were a layer: a style sheet may make it one.
    private var sheetReferences = SVGReferences()
    private var sheetHasLayers = false
    /// Text of the open `style` element: its pieces between comments are one text.
    private var sheet = ""
    /// Sum of the absolute values of all numbers: no line is longer than twice the sum.
    private var extent = 0.0
    private var shortestDash = Double.infinity
    private var numbers = 0
    private var hasMarkers = false

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func run() throws(Refusal) {
        while let mark = find("<", from: index) {
            if styleDepth != nil { sheet += try decoded(text(index..<mark)) }
            takeText(mark - index)
            index = mark
            if starts("<!--") {
                index = try end("-->")
            } else if starts("<![CDATA[") {
                let end = try end("]]>")
                if styleDepth != nil { sheet += text((mark + 9)..<(end - 3)) }
                takeText(end - mark)
                index = end
            } else if starts("<?") {
                let end = try end("?>")
                try takeInstruction(text(mark..<end))
                index = end
            } else if starts("<!") {
                // Entities are declared within brackets and expand when they are used.
                let end = try end(">")
                if text(mark..<end).contains("[") || !starts("<!DOCTYPE") {
                    throw Refusal(text: "declares entities or attributes of its own, which are not expanded")
                }
                index = end
            } else if starts("</") {
                index = try end(">")
                if open.count > 1 { open.removeLast() }
                if let depth = styleDepth, open.count <= depth { try endStyle() }
                if let depth = textDepth, open.count <= depth { textDepth = nil }
            } else {
                try takeTag()
            }
        }
        try endStyle()
        guard let drawn = references.drawn() else {
            throw Refusal(text: "draws something within itself")
        }
        if sheetHasLayers, let depth = sheetReferences.drawn()?.layers, depth > SVGBounds.sheetLayers {
            throw Refusal(
                text: "nests more than \(SVGBounds.sheetLayers) elements, each of which its style sheet may draw apart"
            )
        }
        if drawn.layers > SVGBounds.layers {
            throw Refusal(text: "has more than \(SVGBounds.layers) groups in each other that are drawn apart")
        }
        if hasMarkers && drawn.elements * numbers > SVGBounds.markers { throw Refusal(text: "draws too many markers") }
        if drawn.elements > SVGBounds.drawn {
            throw Refusal(text: "draws more than \(SVGBounds.drawn) elements by references")
        }
        if drawn.bytes > SVGBounds.drawnBytes {
            throw Refusal(text: "has paths or texts that are too long, or that are drawn too often")
        }
        if 2 * extent / shortestDash > SVGBounds.dashes { throw Refusal(text: "has lines of too many dashes") }
    }

    // MARK: - Tags

    private mutating func takeTag() throws(Refusal) {
        let start = index
        count += 1
        if count > SVGBounds.elements { throw Refusal(text: "has more than \(SVGBounds.elements) elements") }
        index += 1
        let name = local(takeName())
        if let validationError = SVGBounds.validationError(ofElement: name) { throw Refusal(text: validationError) }
        // Their text would be taken for a part of the sheet, and is none for librsvg.
        if styleDepth != nil { throw Refusal(text: "has elements in a style, which are not read") }
        var (id, targets, isClosed, isLayer) = (String?.none, [String](), false, false)
        while true {
            skipSpace()
            guard index < bytes.count else { throw Refusal(text: "ends within a tag") }
            if starts(">") { break }
            if starts("/>") {
                isClosed = true
                index += 1
                break
            }
            let (attribute, value) = try takeAttribute()
            if Self.isLayer(attribute, value) { isLayer = true }
            if attribute == "href", let validationError = SVGBounds.validationError(ofImage: value) {
                throw Refusal(text: validationError)
            }
            switch attribute {
            case "id": id = value
            case "href" where value.hasPrefix("#"): targets.append(String(value.dropFirst()))
            default: targets += try take(attribute, value)
            }
        }
        index += 1
        let parent = open[open.count - 1]
        let layers = (id == nil ? parent.layers : 0) + (isLayer ? 1 : 0)
        let elements = (id == nil ? parent.elements : 0) + 1
        let node = references.add(id, targets, layers: layers, bytes: index - start, in: parent.node)
        _ = sheetReferences.add(id, targets, layers: elements, bytes: index - start, in: parent.node)
        if isClosed { return }
        open.append((node, layers, elements))
        if open.count > SVGBounds.depth { throw Refusal(text: "nests more than \(SVGBounds.depth) elements") }
        if name == "style", styleDepth == nil { styleDepth = open.count - 1 }
        if name == "text", textDepth == nil {
            textDepth = open.count - 1
            textBytes = 0
        }
    }

    private mutating func takeText(_ length: Int) {
        guard textDepth != nil, length > 0 else { return }
        references.add(bytes: SVGBounds.cost(ofText: length, after: textBytes), to: open[open.count - 1].node)
        textBytes += length
    }

    /// Properties that make librsvg draw an element on a surface of its own.
    private static let layered: Set = ["opacity", "mask", "mix-blend-mode", "isolation", "clip-path"]

    private static func isLayer(_ name: String, _ value: String) -> Bool {
        if layered.contains(name) { return !["1", "none", "normal", "auto"].contains(value) }
        guard name == "style" else { return false }
        return withoutComments(value).split(separator: ";").contains { property in
            let parts = property.split(separator: ":", maxSplits: 1).map { $0.filter { !$0.isWhitespace } }
            return parts.count == 2 && layered.contains(parts[0]) && isLayer(parts[0], parts[1])
        }
    }

    /// Whether a style sheet has one of these properties, and not `fill-opacity`, for example.
    private static func namesLayer(_ sheet: String) -> Bool {
        layered.contains { name in
            sheet.ranges(of: name).contains { range in
                let before = sheet[..<range.lowerBound].unicodeScalars.last
                return before.map { $0 != "-" && !$0.properties.isAlphabetic } ?? true
            }
        }
    }

    private static func withoutComments(_ style: String) -> String {
        var (text, rest) = ("", style[...])
        while let start = rest.firstRange(of: "/*") {
            text += rest[..<start.lowerBound]
            guard let end = rest[start.upperBound...].firstRange(of: "*/") else { return text }
            rest = rest[end.upperBound...]
        }
        return text + rest
    }

    private mutating func takeAttribute() throws(Refusal) -> (name: String, value: String) {
        let name = local(takeName())
        skipSpace()
        guard !name.isEmpty, starts("=") else { throw Refusal(text: "has a tag that cannot be read") }
        index += 1
        skipSpace()
        guard index < bytes.count, case let quote = bytes[index],
            quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'"),
            let last = find(Unicode.Scalar(quote), from: index + 1)
        else { throw Refusal(text: "has an attribute that cannot be read") }
        let value = text((index + 1)..<last)
        index = last + 1
        return (name, value.contains("&") ? try decoded(value) : value)
    }

    /// The reference targets in the value of an attribute or of a style property.
    private mutating func take(_ name: String, _ value: String) throws(Refusal) -> [String] {
        if name == "filter" && value == "none" { return [] }
        if name.hasPrefix("marker") || name == "style" && value.contains("marker") { hasMarkers = true }
        if name == "filter" || name == "style" && value.contains("filter") {
            throw Refusal(text: "has filters, which are not drawn: their cost has no bound")
        }
        if name == "style" { try checkStyle(value) }
        if name == "stroke-dasharray" || name == "style" && value.contains("dasharray") { takeDashes(value) }
        for number in Self.numbers(value) where number.isFinite {
            extent += abs(number)
            numbers += 1
        }
        return Self.targets(value)
    }

    private mutating func endStyle() throws(Refusal) {
        styleDepth = nil
        if sheet.isEmpty { return }
        defer { sheet = "" }
        try takeStyle(sheet)
    }

    /// A style sheet may apply to any element, so its references would count for every element.
    private mutating func takeStyle(_ text: String) throws(Refusal) {
        try checkStyle(text)
        if text.contains("filter") {
            throw Refusal(text: "has filters, which are not drawn: their cost has no bound")
        }
        if Self.namesLayer(text) { sheetHasLayers = true }
        if text.contains("dasharray") { takeDashes(text) }
        if text.contains("marker") { hasMarkers = true }
        if !Self.targets(text).isEmpty {
            throw Refusal(text: "refers to elements in a style sheet, which may draw them any number of times")
        }
    }

    private func checkStyle(_ text: String) throws(Refusal) {
        if text.contains("\\") { throw Refusal(text: "has a style with escapes, which are not read") }
        if text.contains("@import") { throw Refusal(text: "imports style sheets, which is not done") }
    }

    private mutating func takeDashes(_ text: String) {
        let sum = Self.numbers(text).reduce(0) { $0 + abs($1) }
        if sum > 0 { shortestDash = min(shortestDash, sum) }
    }

    private func takeInstruction(_ text: String) throws(Refusal) {
        if text.contains("xml-stylesheet") { throw Refusal(text: "names a style sheet, which is not read") }
        guard let start = text.range(of: "encoding") else { return }
        let rest = text[start.upperBound...].drop { " =\"'\t\r\n".contains($0) }.lowercased()
        let isPlain = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-", "windows-125"].contains { rest.hasPrefix($0) }
        if !isPlain { throw Refusal(text: "is in an encoding other than UTF-8") }
    }

    // MARK: - Values

    private static func targets(_ value: String) -> [String] {
        // One pass over the value: a new search for each `url(` would copy the rest of the value every time.
        let marks = CharacterSet(charactersIn: " \t\r\n\"'#")
        var targets: [String] = []
        for part in value.components(separatedBy: "url(").dropFirst() {
            let end = part.firstIndex(of: ")") ?? part.endIndex
            targets.append(part[..<end].trimmingCharacters(in: marks))
        }
        return targets
    }

    private static func numbers(_ text: String) -> [Double] {
        var (numbers, digits) = ([Double](), "")
        func isNumber(_ byte: UInt8) -> Bool { 48...57 ~= byte || byte == 46 }
        var last: UInt8 = 0
        for byte in text.utf8 {
            let isExponent = (byte == 69 || byte == 101) && isNumber(last)
            let isSign = (byte == 43 || byte == 45) && (last == 69 || last == 101) && !digits.isEmpty
            if isNumber(byte) || (isExponent && !digits.isEmpty) || isSign {
                digits.unicodeScalars.append(Unicode.Scalar(byte))
            } else if !digits.isEmpty {
                numbers.append(number(digits))
                digits = ""
            }
            last = byte
        }
        if !digits.isEmpty { numbers.append(number(digits)) }
        return numbers
    }

    /// Reads the leading digits of `1e` (from `1em`) and of `1.2.3`, which is two numbers.
    private static func number(_ digits: String) -> Double {
        if let number = Double(digits) { return number }
        return Double(digits.prefix { $0.isNumber }) ?? 1
    }

    /// Expands character references and the five predefined entities of XML; other entities are refused.
    private func decoded(_ value: String) throws(Refusal) -> String {
        var (decoded, rest) = ("", value[...])
        while let mark = rest.firstIndex(of: "&") {
            decoded += rest[..<mark]
            guard let end = rest[mark...].firstIndex(of: ";") else {
                throw Refusal(text: "has a reference without an end")
            }
            let name = rest[rest.index(after: mark)..<end]
            let known = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
            let code =
                name.hasPrefix("#x")
                ? UInt32(name.dropFirst(2), radix: 16)
                : name.hasPrefix("#") ? UInt32(name.dropFirst()) : nil
            if let text = known[String(name)] {
                decoded += text
            } else if let scalar = code.flatMap(Unicode.Scalar.init) {
                decoded.unicodeScalars.append(scalar)
            } else {
                throw Refusal(text: "has the entity \(name.prefix(32)), which is not known")
            }
            rest = rest[rest.index(after: end)...]
        }
        return decoded + rest
    }

    // MARK: - Bytes

    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    private func find(_ mark: Unicode.Scalar, from start: Int) -> Int? {
        guard start < bytes.count, let base = bytes.baseAddress,
            let found = memchr(base + start, Int32(mark.value), bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }

    private func starts(_ mark: StaticString) -> Bool {
        let length = mark.utf8CodeUnitCount
        guard index + length <= bytes.count, let base = bytes.baseAddress else { return false }
        return memcmp(base + index, mark.utf8Start, length) == 0
    }

    /// Offset of the first byte after the next occurrence of the mark.
    private func end(_ mark: StaticString) throws(Refusal) -> Int {
        let first = Unicode.Scalar(mark.utf8Start.pointee)
        var walk = self
        while let found = find(first, from: walk.index) {
            walk.index = found
            if walk.starts(mark) { return found + mark.utf8CodeUnitCount }
            walk.index += 1
        }
        throw Refusal(text: "ends within its markup")
    }

    private mutating func takeName() -> String {
        let start = index
        while index < bytes.count, !" \t\r\n=/><\"'".utf8.contains(bytes[index]) { index += 1 }
        return text(start..<index)
    }

    /// The name without its namespace prefix.
    private func local(_ name: String) -> String {
        name.lastIndex(of: ":").map { String(name[name.index(after: $0)...]) } ?? name
    }

    private mutating func skipSpace() {
        while index < bytes.count, " \t\r\n".utf8.contains(bytes[index]) { index += 1 }
    }
}
