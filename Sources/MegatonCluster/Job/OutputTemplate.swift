internal import Crypto
package import Foundation
internal import MegatonCore
internal import MegatonPipeline
internal import Synchronization

/// Path of a job's results: a `file:` URL, or `s3://bucket/key`, with placeholders.
///
/// `{path}` the source's directory · `{stem}` its file name without the extension · `{name}` the rendition's name ·
/// `{ext}` the extension of the format · `{host}` the source's host, as in DNS · `{hash}` 12 hex digits of the source ·
/// `{width}` `{height}` of the result, pixels · `{id}` of the job · `{label.x}` the job's label `x`.
package struct OutputTemplate: Sendable, Hashable {
    private let parts: [Part]
    /// The bucket of objects; nil for files.
    package let bucket: String?

    private static let objectPrefix = "s3://"

    /// The template that was read last. A job has its own several times, and shares it with its batch.
    private static let last = Mutex<(text: String, template: OutputTemplate)?>(nil)

    /// - Throws: `JobError` that names the fault of the template.
    package init(_ text: String) throws(JobError) {
        // Compared by bytes: strings are equal also if their accents are encoded in two ways, and name two directories.
        let last = Self.last.withLock { $0 }
        if let last, last.text.utf8.elementsEqual(text.utf8) {
            self = last.template
            return
        }
        try self.init(reading: text)
        Self.last.withLock { [self] in $0 = (text, self) }
    }

    private init(reading text: String) throws(JobError) {
        if text.hasPrefix(Self.objectPrefix) {
            let rest = text.dropFirst(Self.objectPrefix.count)
            let bucket = String(rest.prefix { $0 != "/" })
            do throws(ImagePipeline.Error) {
                _ = try S3Location(bucket: bucket, key: "key")
            } catch {
                throw JobError(
                    "output names no bucket: the name of one has \(OutputBucket.rule), without placeholders"
                )
            }
            guard rest.count > bucket.count + 1, !rest.hasSuffix("/") else {
                throw JobError(
                    "output names no object of the bucket, as s3://\(bucket)/thumbs/{stem}-{name}.{ext} does"
                )
            }
            self.bucket = bucket
            parts = try Part.parts(of: rest.dropFirst(bucket.count), in: "output", decoding: Self.decode)
            return
        }
        guard text.hasPrefix("file:///") else {
            throw JobError(
                "output must be a file: URL with an absolute path, like file:///srv/thumbs/{stem}-{name}.{ext}, or an "
                    + "object, like s3://bucket/{stem}-{name}.{ext}"
            )
        }
        bucket = nil
        parts = try Part.parts(of: text.dropFirst("file://".count), in: "output", decoding: Self.decode)
    }

    private static func decode(_ text: Substring) throws(JobError) -> String {
        let isPlain = !text.utf8.contains(UInt8(ascii: "%"))
        guard let decoded = isPlain ? String(text) : String(text).removingPercentEncoding, !decoded.utf8.contains(0)
        else {
            throw JobError("output has a broken percent-encoding or a NUL")
        }
        return decoded
    }

    /// The directory in the path before the first placeholder: the outputs of all sources lie beneath it.
    package var directory: String {
        guard case .text(let text)? = parts.first else { return "/" }
        return String(text.directoryPart)
    }

    /// Whether the path depends on the size of the result.
    package var usesSize: Bool { parts.usesSize }

    /// Whether the path depends on the id of the job.
    var usesID: Bool { parts.contains(.placeholder(.id)) }

    /// Whether the path depends on a label of the job.
    var usesLabels: Bool { !parts.labels.isEmpty }

    /// The reason why a job with these labels has no such path; nil if it has one.
    package func problem(with labels: Job.Labels?) -> String? {
        parts.labels.first { labels?[$0] == nil }.map { label in
            "output has {label.\(label)}, and the job has no label \(FieldProblem.quoted(label))"
        }
    }

    /// Whether each rendition has a path of its own. Assumed if the paths depend on sizes, which only the worker knows.
    ///
    /// - Parameter renditions: with names of their own.
    func distinguishes(_ renditions: [Rendition]) -> Bool { parts.distinguishes(renditions) }

    /// Whether a source is a `data:` URL; faster than parsing it; it may have a megabyte.
    package static func isDataURL(_ source: String) -> Bool {
        source.utf8.prefix("data:".utf8.count).elementsEqual("data:".utf8) { byte, letter in
            byte == letter || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) && byte | 0x20 == letter
        }
    }

    /// The absolute path for one rendition; for an object its URL. Parts that derive from the source or the job cannot
    /// lead out of the template's directory: they lose `..`, slashes and control characters.
    ///
    /// - Parameters:
    ///   - id: of the job.
    ///   - labels: of the job; all that the template names, see `problem(with:)`.
    package func path(
        source: String,
        rendition: Rendition,
        size: PixelSize,
        id: String? = nil,
        labels: Job.Labels? = nil
    ) -> String {
        let path = filePath(source: source, rendition: rendition, size: size, id: id, labels: labels)
        guard let bucket else { return path }
        // A key is no path: it has no empty part at its beginning, and no part that a client would leave out.
        let key = path.pathComponents().map { $0 == "." ? "_" : $0 }.joined(separator: "/")
        return "\(Self.objectPrefix)\(bucket)/\(S3Location.encoded(key))"
    }

    private func filePath(
        source: String,
        rendition: Rendition,
        size: PixelSize,
        id: String?,
        labels: Job.Labels?
    ) -> String {
        // The bytes of a data: URL are no path, and may be many. A template need not name parts of the source.
        let isData = Self.isDataURL(source)
        lazy var url = isData ? nil : URL(string: source)
        lazy var components = isData ? [] : url.map(Self.components) ?? []
        let path = parts.map { part in
            switch part {
            case .text(let text): return text
            case .placeholder(.path): return components.dropLast().map(Self.plain).joined(separator: "/")
            case .placeholder(.stem):
                return isData ? "data" : components.last.map { Self.stem(of: $0) } ?? "index"
            case .placeholder(.name): return rendition.name
            case .placeholder(.ext): return rendition.format.fileExtension
            case .placeholder(.host): return Self.host(of: url)
            case .placeholder(.width): return String(size.width)
            case .placeholder(.height): return String(size.height)
            case .placeholder(.hash): return Self.hash(source)
            case .placeholder(.id): return Self.plain(id ?? "")
            case .placeholder(.label(let label)): return Self.plain(labels?[label]?.text ?? "")
            }
        }.joined()
        // A file named `...` has the stem `..`, and an empty component turns `.{path}.` into two dots.
        guard path.hasTwoDots else { return path }
        return path.pathComponents(omittingEmpty: false).map { $0 == ".." ? "_" : $0 }.joined(separator: "/")
    }

    /// The host of a source as a part of a path.
    package static func host(of url: URL?) -> String { plain(url?.host(percentEncoded: false) ?? "local") }

    /// Components of a URL's path, decoded; left encoded if they are not UTF-8, so that two such names stay distinct.
    package static func components(of url: URL) -> [String] {
        let decoded = url.path(percentEncoded: false)
        return (decoded.isEmpty ? url.path() : decoded).pathComponents().map(String.init)
    }

    /// A component that is safe in a path, and readable.
    package static func plain(_ component: String) -> String { shortened(safe(component), of: component) }

    /// The stem of a file's name as a component. Its extension is removed first: a shortened name ends with a hash,
    /// which would be lost behind a dot of the name's beginning.
    package static func stem(of file: String) -> String {
        let name = safe(file)
        let stem = name.lastIndex(of: ".").flatMap { $0 == name.startIndex ? nil : String(name[..<$0]) } ?? name
        return shortened(stem, of: file)
    }

    private static func safe(_ component: String) -> String {
        let isPlainASCII = component.utf8.allSatisfy { byte in
            (32..<127).contains(byte) && byte != UInt8(ascii: "/") && byte != UInt8(ascii: "\\")
        }
        let safe = isPlainASCII ? component : replacing(component)
        return safe == "." || safe == ".." || safe.isEmpty ? "_" : safe
    }

    /// File names may have 255 bytes, and the template adds to the component.
    private static func shortened(_ safe: String, of component: String) -> String {
        guard safe.utf8.count > 160 else { return safe }
        return String(decoding: Array(safe.utf8.prefix(140)), as: UTF8.self) + "-" + hash(component)
    }

    private static func replacing(_ component: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in component.unicodeScalars { safe.append(isUnsafe(scalar) ? "_" : scalar) }
        return String(safe)
    }

    /// Path separators, and characters that make a listing show another name than the file has: controls, line and
    /// paragraph separators, and characters that change the direction of text (Unicode's Bidi_Control).
    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        if scalar == "/" || scalar == "\\" || scalar.properties.isBidiControl { return true }
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: return true
        default: return false
        }
    }

    /// The first 12 hex digits of a SHA-256.
    package static func hash(_ text: String) -> String {
        String(SHA256.hash(data: Data(text.utf8)).hexDigits.prefix(12))
    }
}
