//! Real-time virtual memory compared with a page table: the figures of the paper. The page is [`crate::pages::realtime`].

pub mod figure;
