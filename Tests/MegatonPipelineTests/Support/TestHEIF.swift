import Foundation
import MegatonTestSupport

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// Files with real and with fake AV1 and HEVC images, and calls of the code under test.
enum TestHEIF {
    /// An image of one color as AV1: its configuration and its bytes.
    struct Picture: Sendable {
        let configuration: Data
        let bytes: Data
        let size: PixelSize

        init(_ width: Int, _ height: Int, _ color: [UInt8] = [200, 100, 50]) throws {
            struct NoPicture: Error {}
            let image = try TestPicture.plain(width, height, color)
            guard let file = ImageEncoders.Vips(format: .avif).encode(image) else { throw NoPicture() }
            let parts: (Data, Data)? = try file.withUnsafeBytes { buffer in
                let heif = try HEIFFile(buffer)
                guard let item = heif.items[heif.primary ?? 0], let av1C = heif.configuration(of: item) else {
                    return nil
                }
                let content = Data(buffer[av1C.content])
                return (HEIFWriter.box("av1C", content), item.extents.reduce(Data()) { $0 + buffer[$1] })
            }
            guard let parts else { throw NoPicture() }
            (configuration, bytes) = parts
            size = PixelSize(width: width, height: height)
        }
    }

    /// A file with one coded image, item 1; its properties are the configuration (1) and `ispe` (2).
    static func plain(_ picture: Picture, says size: PixelSize? = nil) -> HEIFWriter {
        let size = size ?? picture.size
        return coded("av01", picture.configuration, picture.bytes, says: size)
    }

    static func coded(_ type: String, _ configuration: Data, _ bytes: Data, says size: PixelSize) -> HEIFWriter {
        var file = HEIFWriter()
        file.brand = type == "av01" ? "avif" : "heic"
        let ispe = HEIFWriter.ispe(size.width, size.height)
        let properties = [file.add(property: configuration), file.add(property: ispe)]
        file.add(1, type, properties: properties, blob: file.add(blob: bytes))
        return file
    }

    static func demand(_ file: HEIFWriter) throws -> HEIFDemand { try HEIFDemand(file.data()) }

    /// The error code of a probe with the default limits, from the boxes and the streams alone.
    static func code(_ file: HEIFWriter) -> ImagePipeline.Error.Code? { error(file.data())?.code }

    static func error(_ data: Data) -> ImagePipeline.Error? {
        do throws(ImagePipeline.Error) {
            var probe = ImageProbe(
                type: .avif,
                width: 1,
                height: 1,
                bands: 3,
                frames: 1,
                orientation: 1,
                isProgressive: false
            )
            probe.heif = try HEIFDemand(data)
            try RenderLimits().check(probe)
            return nil
        } catch {
            return error
        }
    }

    /// Renders a file as a user would.
    static func render(_ data: Data, _ rendition: Rendition = Rendition(width: 32, format: .png)) async throws
        -> EncodedImage?
    {
        let renderer = Renderer(
            engine: RenderEngineChoice.auto.engine,
            limits: RenderLimits(),
            types: AssetType.supported,
            threads: ThreadPool(name: "test", count: 1, onThreadExit: VipsRuntime.endThread)
        )
        return try await renderer.render([rendition], from: data, context: "a.avif").first
    }
}
