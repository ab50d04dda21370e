public import Foundation
import Synchronization

/// The built-in decoders.
public enum ImageDecoders {}

extension ImageDecoders {
    /// Decodes the formats that the pipeline supports: upright, 8 bits for each channel, sRGB or gray, the first frame
    /// only.
    ///
    /// Limits are checked by the header, before any pixel is decoded. If the request asks for a thumbnail, formats that
    /// support it are decoded at a fraction of their size. For GIFs and animations the container keeps the original
    /// bytes.
    ///
    /// Use one decoder for each image: it tracks the previews it has delivered.
    public final class Default: ImageDecoding {
        /// Key in a container's `userInfo`: the number of scans in a preview of a progressive JPEG, an `Int`.
        public static let scanNumberKey = "megaton/scan-number"

        private let limits: RenderLimits
        private let types: Set<AssetType>
        private let thumbnail: ImageRequest.ThumbnailOptions?
        private let previewPolicy: ImagePreviewPolicy?
        private let engine = VipsEngine()
        /// Scans or bytes of the last preview.
        private let shown = Mutex(0)

        /// - Parameters:
        ///   - types: Types that are decoded, detected from the bytes.
        ///   - thumbnail: Decodes a smaller image.
        ///   - previewPolicy: nil is `ImagePreviewPolicy.default(for:)`.
        public init(
            limits: RenderLimits = RenderLimits(),
            types: Set<AssetType> = AssetType.supported,
            thumbnail: ImageRequest.ThumbnailOptions? = nil,
            previewPolicy: ImagePreviewPolicy? = nil
        ) {
            self.limits = limits
            self.types = types
            self.thumbnail = thumbnail
            self.previewPolicy = previewPolicy
        }

        /// - Throws: `ImageError`: `.unsupportedFormat`, `.corruptImage`, the code of a limit,
        ///   `.renderTimedOut`.
        public func decode(_ data: Data) throws -> ImageContainer {
            try decode(data, plan(data), RenderDeadline(.now + limits.time))
        }

        /// Plans the decoding from the header, within the limits.
        func plan(_ data: Data) throws(ImageError) -> RenderPlan {
            RenderPlan(decoding: try limits.probe(data, types.sniff(data), engine), as: thumbnail)
        }

        func decode(
            _ data: Data,
            _ plan: RenderPlan,
            _ deadline: RenderDeadline
        ) throws(ImageError) -> ImageContainer {
            let keepsData = thumbnail == nil && (plan.probe.type == .gif || plan.probe.isAnimated)
            return ImageContainer(
                image: try engine.image(plan, data, deadline: deadline),
                type: plan.probe.type,
                data: keepsData ? data : nil
            )
        }

        // MARK: - Previews

        public func decodePartiallyDownloadedData(_ data: Data) -> ImageContainer? {
            preview(of: data, RenderDeadline(.now + limits.time)) { _, decode throws(ImageError) in
                try decode()
            }
        }

        /// Runs the decoding of a preview if memory is available; returns nil otherwise.
        typealias Admission = (
            _ cost: RenderCost,
            _ decode: () throws(ImageError) -> PlatformImage
        ) throws(ImageError) -> PlatformImage?

        /// - Parameter admit: Receives the preview's cost and decides whether to decode it.
        func preview(of data: Data, _ deadline: RenderDeadline, _ admit: Admission) -> ImageContainer? {
            guard AssetType(data) == .jpeg, types.contains(.jpeg) else { return nil }
            return switch previewPolicy ?? .default(for: data) {
            case .incremental: incrementalPreview(data, deadline, admit)
            case .thumbnail: embeddedThumbnail(data, deadline, admit)
            case .disabled: nil
            }
        }

        private func incrementalPreview(
            _ data: Data,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> ImageContainer? {
            let scans = JPEGScans(data)
            guard scans.count > 0 else { return nil }
            // The last scan is still arriving. A second preview of the same scans would show nothing new.
            let isNew = shown.withLock { shown in
                let seen = scans.isProgressive ? scans.count - 1 : data.count
                defer { shown = max(shown, seen) }
                return seen > shown
            }
            guard isNew, let image = preview(data, as: thumbnail, deadline, admit) else { return nil }
            return ImageContainer(
                image: image,
                type: .jpeg,
                isPreview: true,
                userInfo: scans.isProgressive ? [Self.scanNumberKey: scans.count - 1] : [:]
            )
        }

        private func embeddedThumbnail(
            _ data: Data,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> ImageContainer? {
            guard shown.withLock({ $0 == 0 }), let (small, orientation) = engine.embeddedThumbnail(data) else {
                return nil
            }
            shown.withLock { $0 = 1 }
            guard let image = preview(small, as: nil, orientation: orientation, deadline, admit) else { return nil }
            return ImageContainer(image: image, type: .jpeg, isPreview: true)
        }

        /// Returns nil on failure: a failed preview does not fail the image.
        private func preview(
            _ data: Data,
            as thumbnail: ImageRequest.ThumbnailOptions?,
            orientation: Int? = nil,
            _ deadline: RenderDeadline,
            _ admit: Admission
        ) -> PlatformImage? {
            do throws(ImageError) {
                let plan = try engine.planPartly(data, limits, as: thumbnail, orientation: orientation)
                return try admit(plan.cost) { () throws(ImageError) in
                    try engine.image(plan, data, failOn: .nothing, orientation: orientation, deadline: deadline)
                }
            } catch {
                return nil
            }
        }
    }
}
