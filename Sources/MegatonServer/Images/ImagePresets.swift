internal import MegatonCore

/// Named lists of options, in imgproxy's text: `name=option:argument/option:argument`.
///
/// A preset may contain others. The preset `default` applies to each URL, before its options.
package struct ImagePresets: Sendable {
    /// Options of one URL after its presets are replaced by theirs: presets within presets could be endless otherwise.
    static let maximumOptions = 1024
    private static let defaultName = "default"

    private var presets: [String: [ImageArguments]] = [:]

    /// No presets.
    package init() {}

    /// - Parameter definitions: One preset each; empty ones and those that begin with `#` are comments.
    package init(_ definitions: [String]) throws(ImageSettingsError) {
        for definition in definitions { try add(definition) }
        for name in presets.keys.sorted() {
            do throws(ImageURLError) {
                _ = try ImageOptions(expanded([ImageArguments(presets: name)]))
            } catch {
                throw ImageSettingsError("the preset \(FieldProblem.quoted(name)) is invalid: \(error)")
            }
        }
    }

    /// Refuses presets with sizes that the settings do not allow: each of their URLs would be an error.
    package func check(_ settings: ImageURLSettings) throws(ImageSettingsError) {
        for name in names {
            do throws(ImageURLError) {
                try ImageOptions(expanded([ImageArguments(presets: name)])).checkSizes(settings)
            } catch {
                throw ImageSettingsError("the preset \(FieldProblem.quoted(name)) is of no use: \(error)")
            }
        }
    }

    /// The names in their order.
    package var names: [String] { presets.keys.sorted() }

    private mutating func add(_ definition: String) throws(ImageSettingsError) {
        let text = Self.trimmed(definition[...])
        if text.isEmpty || text.utf8.first == UInt8(ascii: "#") { return }
        let shown = FieldProblem.quoted(text)
        guard let sign = text.utf8.firstIndex(of: UInt8(ascii: "=")) else {
            throw ImageSettingsError("the preset \(shown) is not name=options, such as small=width:100/quality:70")
        }
        let name = Self.trimmed(text[..<sign])
        if name.isEmpty || name.utf8.contains(where: { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "/") }) {
            throw ImageSettingsError("the preset \(shown) needs a name before =, without : and /")
        }
        if presets[name] != nil { throw ImageSettingsError("there are two presets \(FieldProblem.quoted(name))") }
        let segments = Self.trimmed(text[text.utf8.index(after: sign)...]).utf8
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { ImageArguments(String(Substring($0))) }
        if let segment = segments.first(where: { $0.values.isEmpty }) {
            throw ImageSettingsError(
                "the preset \(FieldProblem.quoted(name)) has \(FieldProblem.quoted(segment.name)), which is not an "
                    + "option such as width:100"
            )
        }
        presets[name] = segments
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    // MARK: - Use

    /// The options of a URL after those of `default`, with the options of presets in their place.
    func expandedWithDefault(_ list: [ImageArguments]) throws(ImageURLError) -> [ImageArguments] {
        try expanded(presets[Self.defaultName] == nil ? list : [ImageArguments(presets: Self.defaultName)] + list)
    }

    private func expanded(_ list: [ImageArguments]) throws(ImageURLError) -> [ImageArguments] {
        var result: [ImageArguments] = []
        try append(list, within: [], to: &result)
        return result
    }

    private func append(
        _ list: [ImageArguments],
        within outer: [String],
        to result: inout [ImageArguments]
    ) throws(ImageURLError) {
        for option in list {
            if try ImageOption.of(option) == .preset {
                for index in option.values.indices { try append(preset: index, of: option, within: outer, to: &result) }
                continue
            }
            if result.count == Self.maximumOptions {
                throw ImageURLError(
                    .option,
                    "The URL and its presets have more than \(Self.maximumOptions) options; use fewer presets"
                )
            }
            result.append(option)
        }
    }

    private func append(
        preset index: Int,
        of option: ImageArguments,
        within outer: [String],
        to result: inout [ImageArguments]
    ) throws(ImageURLError) {
        let name = option[index]
        guard let list = presets[name] else {
            throw option.problem(index, "preset", allowed: "are the names of presets of this server")
        }
        if outer.contains(name) {
            throw option.problem(index, "preset", allowed: "are presets without this one in them")
        }
        try append(list, within: outer + [name], to: &result)
    }
}
