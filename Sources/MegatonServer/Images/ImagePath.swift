/// The path of an image URL, `/{signature}/{options}/{source}`, in its parts.
struct ImagePath: Sendable, Equatable {
    /// Bytes of a path.
    static let maximumLength = 4096
    static let maximumOptions = 64

    let signature: String
    /// The path after the signature, with its leading slash, exactly as received.
    let signed: String

    /// - Parameter path: The path as received, from the slash before the signature; a query is left out, because it is
    ///   not signed.
    init(_ path: String) throws(ImageURLError) {
        let path = path.utf8.prefix { $0 != UInt8(ascii: "?") }
        if path.count > Self.maximumLength {
            throw Self.problem("The path has \(path.count) bytes; allowed are \(Self.maximumLength)")
        }
        guard path.first == UInt8(ascii: "/"),
            let end = path.dropFirst().firstIndex(of: UInt8(ascii: "/")), end != path.index(after: path.startIndex),
            path.index(after: end) != path.endIndex
        else { throw Self.problem("The path is not /signature/options/source") }
        signature = String(Substring(path[..<end].dropFirst()))
        signed = String(Substring(path[end...]))
    }

    /// Options and source. Options are the segments with a colon before the first segment without one.
    ///
    /// - Parameter presetsOnly: Reads the first segment as names of presets, whatever it contains.
    func parts(presetsOnly: Bool) throws(ImageURLError) -> (options: [ImageArguments], source: ImageSource) {
        let segments = signed.utf8.dropFirst()
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        if presetsOnly {
            if segments[0] == "plain" {
                throw Self.problem("The path has no preset; this server takes names of presets in the place of options")
            }
            return ([ImageArguments(presets: segments[0])], try ImageSource(segments.dropFirst()))
        }
        let options = segments.prefix { $0.utf8.contains(UInt8(ascii: ":")) }
        if options.count > Self.maximumOptions {
            throw Self.problem("The path has \(options.count) options; allowed are \(Self.maximumOptions)")
        }
        return (options.map { ImageArguments($0) }, try ImageSource(segments[options.endIndex...]))
    }

    private static func problem(_ text: String) -> ImageURLError { ImageURLError(.path, text) }
}
