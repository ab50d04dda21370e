internal import CZimg
internal import Foundation

/// Scales planes of one size to another.
///
/// `@unchecked Sendable`: the graph is built once and only read afterwards, which zimg allows from several threads at a
/// time. Each call has working memory of its own.
final class ZimgGraph: @unchecked Sendable {
    private let graph: OpaquePointer
    /// Working memory for a call, in bytes.
    private let room: Int
    private let size: PixelSize

    /// - Returns: nil if zimg fails.
    init?(_ geometry: PlaneGeometry) {
        let part = geometry.part
        size = geometry.size
        guard
            let graph = megaton_zimg_build(
                UInt32(geometry.source.width),
                UInt32(geometry.source.height),
                part.left,
                part.top,
                part.width,
                part.height,
                UInt32(size.width),
                UInt32(size.height)
            )
        else { return nil }
        self.graph = graph
        var room = 0
        guard zimg_filter_graph_get_tmp_size(graph, &room) == ZIMG_ERROR_SUCCESS else {
            zimg_filter_graph_free(graph)
            return nil
        }
        self.room = PlaneRow.padded(max(1, room))
    }

    deinit { zimg_filter_graph_free(graph) }

    /// - Returns: nil if there is no memory, or if zimg fails.
    func scale(_ plane: Plane) -> Plane? {
        guard let result = Plane(width: size.width, height: size.height),
            let memory = aligned_alloc(PlaneRow.alignment, room)
        else { return nil }
        defer { free(memory) }
        let code = megaton_zimg_process(graph, plane.bytes, plane.stride, result.bytes, result.stride, memory)
        return code == 0 ? result : nil
    }
}
