internal import Crypto
public import Foundation

/// The images that watermarks of renditions may name: the files of one directory, decoded once.
public struct Watermarks: Sendable {
    private let images: [String: WatermarkPixels]
    /// Files that are left out, and why: they are no images, too large, or have a name that no rendition can have.
    /// Renditions that name one of them fail with this reason.
    public let unusable: [String: ImageError]

    /// Maximum number of files.
    static let maximumCount = 64
    /// Maximum size of a file in bytes.
    static let maximumFileSize = 8 << 20
    /// The longer side of an image in memory: larger ones are scaled down.
    static let maximumSide = 2048
    /// Maximum memory of all decoded images, in bytes.
    static let maximumPixelBytes = 256 << 20

    /// Reads and decodes all files of a directory, which blocks. Hidden files and directories in it are left out, and
    /// those in ``unusable``, such as a README.
    ///
    /// - Parameters:
    ///   - directory: At most 64 files of at most 8 MiB each. A name has letters, digits, `.`, `_` and `-`.
    ///   - types: Formats that may be decoded.
    ///   - limits: Limits of the images, as for any source.
    /// - Throws: `.notFound` if the directory cannot be read, `.dataTooLarge` if it has too many files or pixels.
    public init(
        directory: URL,
        types: Set<AssetType> = AssetType.supported,
        limits: RenderLimits = RenderLimits()
    ) throws(ImageError) {
        let path = directory.path(percentEncoded: false)
        let files = try Self.files(of: directory)
        if files.count > Self.maximumCount {
            throw ImageError(
                .dataTooLarge,
                "the directory of watermarks \(path) has \(files.count) files; the limit is \(Self.maximumCount)."
            )
        }
        var images: [String: WatermarkPixels] = [:]
        var unusable: [String: ImageError] = [:]
        var bytes = 0
        for file in files {
            let image: WatermarkPixels
            do throws(ImageError) {
                image = try Self.load(file, types, limits)
            } catch {
                unusable[file.lastPathComponent] = error
                continue
            }
            images[file.lastPathComponent] = image
            bytes += image.size.width * image.size.height * 4
            if bytes > Self.maximumPixelBytes {
                throw ImageError(
                    .dataTooLarge,
                    "the watermarks of \(path) need more than \(Self.maximumPixelBytes >> 20) MiB as pixels. Make them "
                        + "smaller."
                )
            }
        }
        self.images = images
        self.unusable = unusable
    }

    /// The names of the images, sorted.
    package var names: [String] { images.keys.sorted() }

    /// The rendition with the pixels of its watermark's image, if it names one.
    ///
    /// - Throws: `.watermarkMissing`.
    package static func resolve(_ rendition: Rendition, in watermarks: Watermarks?) throws(ImageError) -> Rendition {
        guard case .image(let name) = rendition.watermark?.content else { return rendition }
        var rendition = rendition
        rendition.watermark?.overlay = watermarks?.images[name]
        if rendition.watermark?.overlay != nil { return rendition }
        if let reason = watermarks?.unusable[name] {
            throw ImageError(.watermarkMissing, "the rendition \(rendition.name): \(reason.message)")
        }
        let names = watermarks?.names ?? []
        let known = names.isEmpty ? "there are none" : "known are \(names.joined(separator: ", "))"
        throw ImageError(
            .watermarkMissing,
            "the rendition \(rendition.name) names the watermark \(FieldProblem.quoted(name)), which is not loaded; "
                + "\(known). Put the file into the directory of Configuration.watermarks, and start the process again."
        )
    }

    private static func files(of directory: URL) throws(ImageError) -> [URL] {
        do {
            return try FileManager.default.contentsOfDirectory(
                at: directory,
                includingPropertiesForKeys: [.isDirectoryKey],
                options: .skipsHiddenFiles
            ).filter { try $0.resourceValues(forKeys: [.isDirectoryKey]).isDirectory != true }
                .sorted { $0.lastPathComponent < $1.lastPathComponent }
        } catch {
            throw ImageError(
                .notFound,
                "the directory of watermarks \(directory.path(percentEncoded: false)) cannot be read: "
                    + "\(error.localizedDescription).",
                underlying: error
            )
        }
    }

    private static func load(
        _ file: URL,
        _ types: Set<AssetType>,
        _ limits: RenderLimits
    ) throws(ImageError) -> WatermarkPixels {
        let name = file.lastPathComponent
        guard Rendition.Watermark.isFileName(name) else {
            throw ImageError(
                .forbidden,
                "the watermark \(FieldProblem.quoted(name)) needs another name: at most 128 letters, digits, '.', '_' "
                    + "and '-'."
            )
        }
        let data = try read(file)
        do throws(ImageError) {
            let engine = VipsEngine()
            let probe = try limits.probe(data, types.sniff(data), engine)
            let fullSize = max(probe.uprightSize.width, probe.uprightSize.height) <= maximumSide
            let plan = RenderPlan(
                decoding: probe,
                as: fullSize ? nil : ThumbnailOptions(maxPixelSize: maximumSide)
            )
            let image = try engine.image(plan, data, deadline: RenderDeadline(.now + limits.time))
            return WatermarkPixels(
                digest: SHA256.hash(data: data).hexDigits,
                size: image.size,
                bands: image.bands,
                pixels: image.pixels()
            )
        } catch {
            var error = error
            error.message = "the watermark \(file.path(percentEncoded: false)): \(error.message)"
            throw error
        }
    }

    private static func read(_ file: URL) throws(ImageError) -> Data {
        let path = file.path(percentEncoded: false)
        let data: Data
        do {
            let handle = try FileHandle(forReadingFrom: file)
            defer { try? handle.close() }
            // A byte more shows that the file is too large.
            data = try handle.read(upToCount: maximumFileSize + 1) ?? Data()
        } catch {
            throw ImageError(
                .notFound,
                "the watermark \(path) cannot be read: \(error.localizedDescription).",
                underlying: error
            )
        }
        if data.count > maximumFileSize {
            throw ImageError(
                .dataTooLarge,
                "the watermark \(path) is larger than \(maximumFileSize >> 20) MiB."
            )
        }
        return data
    }
}
